// IDX, the format of MNIST (http://yann.lecun.com/exdb/mnist): two zero bytes, a type, a rank, the sizes and the
// elements, most significant byte first.
//
//   const Tensor images = read_idx("mnist/train-images-idx3-ubyte.gz");   // u8 (60000, 28, 28)
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "engine/io/bytes.h"
#include "engine/tensor.h"

namespace bochner {

/// Reads a file, plain or gzip, whatever its name. Signed bytes and short integers become i32.
Tensor read_idx(const std::filesystem::path& path);
Tensor parse_idx(Bytes bytes, std::string_view file);

/// Writes u8, i32, f32 or f64 atomically (file.h), compressed if the name ends in `.gz`.
void write_idx(const std::filesystem::path& path, const Tensor& tensor);
std::vector<std::byte> format_idx(const Tensor& tensor);

}  // namespace bochner
