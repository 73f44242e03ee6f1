// What a run writes while it trains: metrics.jsonl, and the same values as TensorBoard events.
#pragma once

#include <optional>
#include <string>

#include "experiments/common/process/log.h"
#include "experiments/common/run/events.h"
#include "experiments/common/run/metrics.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/common/run/state.h"

namespace bochner {

class Records {
 public:
  /// Continues the files from the checkpoint `before`, which is of that step; starts a file again, with a warning, if
  /// somebody has removed it. Without `writes`, there are no files: another process writes them.
  Records(const RunFolder& folder, const State& before, int64_t step, Log& log, bool writes);

  void write(int64_t step, const std::string& split, const Metrics& values);
  /// Syncs the files to disk, and puts their sizes and hashes into a checkpoint, which must be written afterwards.
  void mark(State& checkpoint);

 private:
  std::optional<MetricsFile> metrics_;
  std::optional<EventsFile> events_;
};

}  // namespace bochner
