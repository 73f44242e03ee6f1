// PNG images of 8 bits per channel, as tensors of u8.
//
//   const Tensor image = read_png("sample_1.png");        // (height, width, channels), channels 1, 3 or 4
//   write_png("curve.png", image);
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "engine/io/bytes.h"
#include "engine/tensor.h"

namespace bochner {

/// Reads an image as (height, width, channels): grey 1, RGB 3, RGBA 4. Palettes become RGB, grey of 1, 2 or 4 bits
/// becomes 8 bits over the full range, and grey with transparency becomes RGBA. Samples are taken as stored: gamma and
/// colour profiles are ignored. 16 bits per channel, damage that libpng or a checksum detects, images larger than the
/// file can hold and images of more than 2^30 bytes are Errors.
Tensor read_png(const std::filesystem::path& path);
/// More than `most_pixels` are an Error before any of them is decompressed.
Tensor parse_png(Bytes bytes, std::string_view file, int64_t most_pixels = int64_t{1} << 30);

/// Writes u8 (height, width) or (height, width, channels) with 1, 3 or 4 channels, atomically (file.h), from any
/// device.
void write_png(const std::filesystem::path& path, const Tensor& image);
std::vector<std::byte> format_png(const Tensor& image);

}  // namespace bochner
