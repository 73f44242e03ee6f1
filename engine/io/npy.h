// NumPy's .npy (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html): one array, described by a
// Python dictionary. Versions 1, 2 and 3 are read, version 1 is written.
//
//   write_npy("scores.npy", scores);         // numpy.load("scores.npy")
//   const Tensor mask = read_npy("mask.npy");
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "engine/io/bytes.h"
#include "engine/tensor.h"

namespace bochner {

/// Reads an array of little-endian numbers, in C or Fortran order, into a contiguous CPU tensor. float16 becomes f32;
/// int8, int16 and uint16 become i32; uint32 becomes i64; other types, big-endian numbers, records, text and Python
/// objects are refused by name.
Tensor read_npy(const std::filesystem::path& path);
Tensor parse_npy(Bytes bytes, std::string_view file);

/// Writes atomically (file.h), in C order, from any device. NumPy has no bf16: cast it first.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);
std::vector<std::byte> format_npy(const Tensor& tensor);

}  // namespace bochner
