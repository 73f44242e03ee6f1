// `--init RUN`: a run that begins with the weights of another one.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/common/process/log.h"
#include "experiments/common/run/trainer.h"

namespace bochner {

/// An Error where `from` is neither a run with a checkpoint nor a file: it is told before data are read or made.
void require_weights(const std::filesystem::path& from);

/// Copies into the model every tensor of `from` that has the name of one of the model's: a run folder, whose best model
/// is taken, or a safetensors file. Tensors that are missing there, which stay as they were, and tensors that are left
/// over are reported. Tensors of one name must have equal shapes and types, and at least one name must be in both:
/// otherwise an Error. Optimizer and random numbers start afresh. Returns where the weights come from, as JSON for
/// results.json: {"file", "xxh3_128", and of a run "run" and "step"}.
std::string init_from(Trainable& model, const std::filesystem::path& from, Log& log);

}  // namespace bochner
