// What a run has trained, for other programs.
#pragma once

#include "experiments/glue/problem.h"

namespace bochner::glue {

/// Where a method adds something to a frozen model, writes that into the folder `adapter` of the run, as
/// layers/models/peft.h does, with the classifier, and with the pooler if that is not the pretrained one. `frozen` are
/// the parameters that are as they are in --pretrained.
void write_adapter(const Config& config, Bert& bert, const std::set<std::string>& frozen,
                   const std::filesystem::path& run);

/// Writes the best model of the run --export into --to, updates of low rank merged into their matrices. An Error where
/// transformers does not know what the model has.
void export_run(const Config& config, const Say& say);

}  // namespace bochner::glue
