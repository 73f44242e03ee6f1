// `--init RUN`: a run that begins with the weights of another run.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/common/process/log.h"
#include "experiments/common/run/trainer.h"

namespace bochner {

/// An Error if `from` is neither a run with a checkpoint nor a file; call it before data are read or made.
void require_weights(const std::filesystem::path& from);

/// Copies every tensor of `from` that has the same name as one of the model's into the model. `from` is a run folder,
/// whose best model is taken, or a safetensors file. Reports tensors that are missing there, which stay as they were,
/// and tensors that are left over. An Error if tensors of the same name differ in shape or type, or if there is no name
/// in both. Optimizer and random numbers start afresh. Returns where the weights come from, as JSON for results.json:
/// {"file", "xxh3_128", and for a run "run" and "step"}.
std::string init_from(Trainable& model, const std::filesystem::path& from, Log& log);

}  // namespace bochner
