// What a pretrained model costs to store and to run, before and after bundling (SNNK Table 6).
#pragma once

#include <functional>

#include "experiments/common/run/metrics.h"
#include "layers/models/pretrained.h"

namespace bochner {

/// For the record of a run: `bytes` of all weights; `trained-bytes`, of those that were trained; `milliseconds` of
/// scores(), which are those of a few examples, the median of several times. Where SNNK layers can be bundled, which is
/// then done, the same after it, as `bundled-...`, and `bundled-apart`: the largest difference of the scores, relative
/// to the largest score.
Metrics cost_of(PretrainedModel& model, const std::function<Variable(Context&)>& scores);

}  // namespace bochner
