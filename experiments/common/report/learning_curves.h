// The curves of training: each metric against steps, and the one that matters against time too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/common/run/results.h"

namespace bochner {

/// <svg> elements for the charts of a page, first that of the metric that matters. Runs that differ in their seed have
/// one colour and one mark; training is dashed.
std::string learning_curves(const std::vector<RunRecord>& runs);

/// Seconds of training up to a step, between two lines of metrics.jsonl on the straight line; nullopt where no line of
/// the run says the time.
std::optional<double> seconds_at(const RunRecord& run, int64_t step);

}  // namespace bochner
