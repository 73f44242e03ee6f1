// For programs that compute on the user's own tensors, from one safetensors file to another: --io and --out.
#pragma once

#include <filesystem>
#include <string>

#include "engine/io/safetensors.h"
#include "experiments/common/process/log.h"

namespace bochner {

/// Where the result goes: `out` itself if it ends in .safetensors, else INPUT-NAME.safetensors in the folder `out`,
/// which is created, or next to the input if `out` is empty. An Error if it cannot be created, if it is the input, or
/// if `out` would hold several results, each in a folder of its own.
std::filesystem::path result_file(const std::filesystem::path& input, const std::filesystem::path& out,
                                  const std::string& name);

/// Writes the tensors and lists them in the log; then prints the file's name. Throws RunFailure, in the name of `what`,
/// if some numbers are not finite, and says which; they are written all the same.
void write_result(const std::filesystem::path& file, const TensorMap& tensors, const Metadata& metadata,
                  const std::string& what, Log& log);

}  // namespace bochner
