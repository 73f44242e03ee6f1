#include "experiments/common/report/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/error.h"
#include "engine/io/png.h"
#include "experiments/common/report/chart.h"

namespace bochner {
namespace {

void require_field(const Tensor& field, double low, double high) {
  if (field.rank() != 2 || field.size() == 0) fail("image: {} is no field of numbers (height, width)", field.str());
  if (!(low < high)) fail("image: the range {} to {} is empty", low, high);
}

/// RFC 4648.
std::string base64(const std::vector<std::byte>& bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? static_cast<uint32_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

/// Colours at 0, 1/4, ... 1, interpolated in between. Lightness grows evenly, so that they are readable in grey and for
/// the colour-blind.
constexpr std::array<std::array<double, 3>, 5> kColourMap = {
    {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}}};

}  // namespace

std::pair<double, double> range_of(const Tensor& field) {
  const std::vector<double> values = field.to_vector<double>();
  if (values.empty()) fail("image: the range of no numbers");
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

Tensor grey_image(const Tensor& field, double low, double high) {
  require_field(field, low, high);
  std::vector<uint8_t> pixels;
  for (const double value : field.to_vector<double>()) {
    const double part = (value - low) / (high - low);
    pixels.push_back(static_cast<uint8_t>(std::lround(255 * (part > 0 ? std::min(part, 1.0) : 0))));
  }
  return Tensor::from(pixels, field.shape());
}

Tensor heat_image(const Tensor& field, double low, double high, int contours) {
  require_field(field, low, high);
  const std::vector<double> values = field.to_vector<double>();
  const int64_t height = field.size(0);
  const int64_t width = field.size(1);
  const auto part_at = [&](int64_t i) {
    const double part = (values[static_cast<size_t>(i)] - low) / (high - low);
    return part > 0 ? std::min(part, 1.0) : 0;  // not finite: like the smallest value
  };
  const auto level_at = [&](int64_t i) { return static_cast<int>(part_at(i) * (contours + 1)); };
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const int64_t i = y * width + x;
      const bool line = contours > 0 && ((x + 1 < width && level_at(i) != level_at(i + 1)) ||
                                         (y + 1 < height && level_at(i) != level_at(i + width)));
      const double place = part_at(i) * (kColourMap.size() - 1);
      const auto from = std::min(static_cast<size_t>(place), kColourMap.size() - 2);
      for (size_t c = 0; c < 3; ++c) {
        const double mixed =
            kColourMap[from][c] + (place - static_cast<double>(from)) * (kColourMap[from + 1][c] - kColourMap[from][c]);
        pixels.push_back(static_cast<uint8_t>(std::lround(line ? mixed / 3 : mixed)));
      }
    }
  }
  return Tensor::from(pixels, {height, width, 3});
}

std::string image_html(const Tensor& image, const std::string& caption, int width) {
  return fmt::format(
      "<figure style=\"display:inline-block;margin:4px\"><img width=\"{}\" style=\"image-rendering:pixelated\" "
      "alt=\"{}\" src=\"data:image/png;base64,{}\"><figcaption>{}</figcaption></figure>",
      width, html_escaped(caption), base64(format_png(image)), html_escaped(caption));
}

}  // namespace bochner
