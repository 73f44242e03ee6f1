// Exports the model of a run for other programs.
#pragma once

#include "experiments/glue/problem.h"

namespace bochner::glue {

/// Writes the best model of the run --export into --to, with low-rank updates merged into their matrices. An Error if
/// the model has something that transformers does not support.
void export_run(const Config& config, const Say& say);

}  // namespace bochner::glue
