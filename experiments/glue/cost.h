// What a model costs to store and to run, before and after bundling (SNNK Table 6).
#pragma once

#include "experiments/glue/config.h"
#include "layers/models/bert.h"

namespace bochner::glue {

/// For the record of a run: `bytes` of all weights; `trained-bytes`, of those that were trained; `milliseconds` of the
/// scores of 8 texts of --max-length random tokens, the median of several. Where SNNK layers can be bundled, which is
/// then done, the same after it, as `bundled-...`, and `bundled-apart`: the largest difference of the scores, relative
/// to the largest score.
Metrics cost_of(const Config& config, Bert& bert);

}  // namespace bochner::glue
