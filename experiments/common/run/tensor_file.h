// For programs that compute on a person's own tensors, from one safetensors file into another: --io and --out.
#pragma once

#include <filesystem>
#include <string>

#include "engine/io/safetensors.h"
#include "experiments/common/process/log.h"

namespace bochner {

/// Where the result goes: `out` itself if it ends in .safetensors, else INPUT-NAME.safetensors in the folder `out`,
/// which is made, or beside the input where `out` is empty. An Error where it cannot be, where it is the input, or
/// where `out` would take several results, each in a folder of its own.
std::filesystem::path result_file(const std::filesystem::path& input, const std::filesystem::path& out,
                                  const std::string& name);

/// Writes the tensors and lists them in the log; then prints the file's name. RunFailure, in the name of `what`, tells
/// which numbers are not finite; they are written all the same.
void write_result(const std::filesystem::path& file, const TensorMap& tensors, const Metadata& metadata,
                  const std::string& what, Log& log);

}  // namespace bochner
