// `--init RUN`: a run that begins with the weights of another one.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/common/program/log.h"
#include "experiments/common/run/trainer.h"

namespace bochner {

/// Copies into the model every tensor of `from` that has the name of one of the model's: a run folder, whose best model
/// is taken, or a safetensors file. What is missing there and stays as it was, and what is left over, is told; so is
/// what the tensors of a name differ in, as an Error: shapes and types must be equal. An Error, too, where no name is
/// in both. Optimizer and random numbers begin anew. Returns where the weights come from, as JSON for results.json:
/// {"file", "xxh3_128", and of a run "run" and "step"}.
std::string init_from(Trainable& model, const std::filesystem::path& from, Log& log);

}  // namespace bochner
