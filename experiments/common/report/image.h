// Fields of numbers as pictures, and pictures as parts of a report.
#pragma once

#include <string>

#include "engine/tensor.h"

namespace bochner {

/// (height, width) of numbers -> u8 (height, width): values up to `low` are black, from `high` on white.
Tensor grey_image(const Tensor& field, double low, double high);

/// The same in colours from dark blue to yellow, u8 (height, width, 3), with dark contour lines where the field crosses
/// one of `contours` levels that divide [low, high] evenly; 0: none.
Tensor heat_image(const Tensor& field, double low, double high, int contours = 0);

/// An <img> element that holds the image itself, shown `width` points wide with a caption below.
std::string image_html(const Tensor& image, const std::string& caption, int width = 240);

/// The least and the largest number of a field that is not empty.
std::pair<double, double> range_of(const Tensor& field);

}  // namespace bochner
