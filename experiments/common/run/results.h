// results.json, the record of a finished run: written, and read back for reports.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/common/config/fields.h"
#include "experiments/common/run/metrics.h"
#include "experiments/common/run/paper.h"
#include "experiments/common/run/trainer.h"

namespace bochner {

/// The contents of a run that reports need.
struct RunRecord {
  std::string experiment;
  std::string task;
  std::string protocol;  ///< the preset; `custom` without one
  Overrides overrides;   ///< settings that differ from the protocol's
  std::string attention;
  uint64_t seed = 0;
  std::string device;
  std::string precision;
  std::string model = "{}";  ///< JSON of the model's settings
  std::string config;        ///< text of config.ini
  std::string id;            ///< of the run, in all its files
  std::string date;          ///< when it finished: UTC, ISO 8601
  std::string host;          ///< where
  std::vector<DataRead> data;
  std::string init = "null";  ///< JSON: where the initial weights came from, if from another run
  TrainResult result;
  Metrics derived;  ///< what Session::after_run adds
  std::vector<MetricsLine> curves;
  std::filesystem::path folder;  ///< the run folder
};

/// As JSON: an object of texts.
std::string overrides_json(const Overrides& overrides);
/// An Error in the name of `file` if it is something else.
Overrides parse_overrides_json(std::string_view json, const std::string& file);

/// The version of the format of results.json; older files have none.
inline constexpr int kResultsSchema = 2;

/// The text of results.json, with the paper's number for this run if the table has one, the current hashes of the files
/// in its folder and, at the end, its own hash.
std::string results_json(const RunRecord& run, const PaperTable& papers);

/// Reads results.json, config.ini and metrics.jsonl of a finished run. An Error if one is missing, or if a file of the
/// run has been changed since.
RunRecord read_run(const std::filesystem::path& folder);

/// `2026-11-22T09:04:05Z`
std::string utc_now();
std::string host_name();

}  // namespace bochner
