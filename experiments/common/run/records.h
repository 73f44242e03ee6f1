// What a run writes while it trains: metrics.jsonl, and the same as TensorBoard events.
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
  /// Continues where the checkpoint `before`, of that step, says, and begins again, with a warning, if somebody removed
  /// a file. If `writes` is not set, there are none: another process writes them.
  Records(const RunFolder& folder, const State& before, int64_t step, Log& log, bool writes);

  void write(int64_t step, const std::string& split, const Metrics& values);
  /// Puts all on the disk, and their sizes and hashes into a checkpoint, which must be written after that.
  void mark(State& checkpoint);

 private:
  std::optional<MetricsFile> metrics_;
  std::optional<EventsFile> events_;
};

}  // namespace bochner
