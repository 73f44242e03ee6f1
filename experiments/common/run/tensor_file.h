// For programs that compute on a person's own tensors, from one safetensors file into another: --io and --out.
#pragma once

#include <filesystem>
#include <string>

#include "engine/io/safetensors.h"

namespace bochner {

/// Where the result goes: `out` itself if it ends in .safetensors, else INPUT-NAME.safetensors in the folder `out`,
/// which is made, or beside the input where `out` is empty. An Error where it cannot be, or where `out` would take
/// several results, each in a folder of its own.
std::filesystem::path result_file(const std::filesystem::path& input, const std::filesystem::path& out,
                                  const std::string& name);

/// `O: 3 of 64 numbers are not finite, the first is element 5`, for each tensor of which that is so.
std::string not_finite(const TensorMap& tensors);

}  // namespace bochner
