// results.json: what a finished run says of itself, and reading it back for reports.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "experiments/common/config/fields.h"
#include "experiments/common/report/paper.h"
#include "experiments/common/run/metrics.h"
#include "experiments/common/run/trainer.h"

namespace bochner {

/// A run as a report needs it.
struct RunRecord {
  std::string experiment;
  std::string task;
  std::string protocol;                                        ///< the preset; `custom` without one
  std::vector<std::pair<std::string, std::string>> overrides;  ///< of the protocol's settings
  std::string attention;
  uint64_t seed = 0;
  std::string device;
  std::string precision;
  std::string model = "{}";  ///< JSON of the settings of the model
  std::string config;        ///< text of config.ini
  TrainResult result;
  Metrics derived;  ///< from the above and the curves, as Experiment::derived says
  std::vector<MetricsLine> curves;
  std::filesystem::path folder;  ///< where all this lies
};

/// The text of results.json, with the paper's number for this run where the table has one.
std::string results_json(const RunRecord& run, const PaperTable& papers);

/// Reads results.json, config.ini and metrics.jsonl of a finished run. An Error where one is missing or damaged.
RunRecord read_run(const std::filesystem::path& folder);

}  // namespace bochner
