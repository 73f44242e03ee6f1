// The charts of runs: each metric against steps, the most important one and the loss against time too, as SKY's Figs. 2
// and 3 have them, and what the test gave against memory and speed, as KL's Figs. 1, 3 and 8.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/common/run/results.h"

namespace bochner {

/// <svg> elements for the charts of a page, the most important metric first. Runs that differ only in their seed have
/// one colour and one mark; training is dashed. What the test gave is a point for each run, and drawn where mechanisms,
/// tasks or protocols are compared.
std::string learning_curves(const std::vector<RunRecord>& runs);

/// Seconds of training up to a step, interpolated between two lines of metrics.jsonl; nullopt if no line of the run has
/// the time.
std::optional<double> seconds_at(const RunRecord& run, int64_t step);

}  // namespace bochner
