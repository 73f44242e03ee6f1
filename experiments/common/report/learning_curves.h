// The charts of runs: each metric against steps; the most important metric and the loss also against time, as in SKY's
// Figs. 2 and 3; and test results against memory and speed, as in KL's Figs. 1, 3 and 8.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/common/run/results.h"

namespace bochner {

/// <svg> elements for the charts of a page, the most important metric first. Runs that differ only in their seed have
/// the same colour and mark; training is dashed. Test results are a point for each run, drawn only if mechanisms, tasks
/// or protocols are compared.
std::string learning_curves(const std::vector<RunRecord>& runs);

/// The times in the lines of metrics.jsonl.
class TrainingTimes {
 public:
  explicit TrainingTimes(const RunRecord& run);
  /// Seconds of training up to a step, interpolated between two lines; nullopt if no line from that step on has the
  /// time.
  std::optional<double> at(int64_t step) const;

 private:
  std::vector<std::pair<int64_t, double>> times_;  ///< steps and seconds, both rising
};

}  // namespace bochner
