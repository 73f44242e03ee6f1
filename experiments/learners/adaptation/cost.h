// What a pretrained model costs to store and to run, before and after bundling (SNNK Table 6).
#pragma once

#include <functional>

#include "experiments/common/run/metrics.h"
#include "layers/models/pretrained.h"

namespace bochner {

/// For the record of a run: `bytes` of all weights; `trained-bytes` of the trained ones; `milliseconds` of scores(),
/// which are those of a few examples, as the median of several times. If SNNK layers can be bundled, bundles them and
/// adds the same numbers after it, as `bundled-...`, and `bundled-apart`: the largest difference of the scores,
/// relative to the largest score.
Metrics cost_of(PretrainedModel& model, const std::function<Variable(Context&)>& scores);

}  // namespace bochner
