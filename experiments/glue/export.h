// The model of a run, for other programs.
#pragma once

#include "experiments/glue/problem.h"

namespace bochner::glue {

/// Writes the best model of the run --export into --to, updates of low rank merged into their matrices. An Error where
/// transformers does not know what the model has.
void export_run(const Config& config, const Say& say);

}  // namespace bochner::glue
