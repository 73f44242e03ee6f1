// The curves of training: each metric against steps, and the most important one against time too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/common/run/results.h"

namespace bochner {

/// <svg> elements for the charts of a page, the most important metric first. Runs that differ only in their seed have
/// one colour and one mark; training is dashed.
std::string learning_curves(const std::vector<RunRecord>& runs);

/// Seconds of training up to a step, interpolated between two lines of metrics.jsonl; nullopt if no line of the run has
/// the time.
std::optional<double> seconds_at(const RunRecord& run, int64_t step);

}  // namespace bochner
