// Pictures of drawings: strokes() and render() of drawing.h.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "datasets/pathfinder/drawing.h"
#include "engine/error.h"

namespace bochner::pathfinder {
namespace {

/// A rectangle of points, `scale` to a pixel: 1 where a stroke is.
struct Patch {
  int64_t left, top, width, height;
  std::vector<uint8_t> points;
};

/// The points within `radius` of the dash, in a rectangle of whole pixels with `border` pixels around them.
Patch points_of(const Dash& dash, int64_t radius, int64_t scale, int64_t border) {
  const int64_t unit = kUnits / scale;  // of a point
  const auto [x0, x1] = std::minmax(dash.from.x, dash.to.x);
  const auto [y0, y1] = std::minmax(dash.from.y, dash.to.y);
  const auto floor = [](int64_t x) { return x >> 6; };
  Patch patch{};
  patch.left = (floor(x0 - radius) - border) * scale;
  patch.top = (floor(y0 - radius) - border) * scale;
  patch.width = (floor(x1 + radius) + border + 1) * scale - patch.left;
  patch.height = (floor(y1 + radius) + border + 1) * scale - patch.top;
  patch.points.assign(static_cast<size_t>(patch.width * patch.height), 0);
  const Point along = {dash.to.x - dash.from.x, dash.to.y - dash.from.y};
  const int64_t length = along.x * along.x + along.y * along.y;
  for (int64_t row = border * scale; row < patch.height - border * scale; ++row) {
    for (int64_t column = border * scale; column < patch.width - border * scale; ++column) {
      const Point p = {(patch.left + column) * unit + unit / 2 - dash.from.x,
                       (patch.top + row) * unit + unit / 2 - dash.from.y};
      const int64_t dot = p.x * along.x + p.y * along.y;
      bool hit = false;
      if (dot <= 0 || dot >= length) {
        const Point q = dot <= 0 ? p : Point{p.x - along.x, p.y - along.y};
        hit = q.x * q.x + q.y * q.y <= radius * radius;
      } else {
        const int64_t across = p.x * along.y - p.y * along.x;
        hit = across * across <= radius * radius * length;
      }
      patch.points[static_cast<size_t>(row * patch.width + column)] = hit ? 1 : 0;
    }
  }
  return patch;
}

/// Calls f(dash, radius, contrast) for every stroke; a disc is a dash without length.
template <class F>
void for_each_stroke(const Drawing& drawing, const F& f) {
  const Parameters& p = drawing.parameters;
  for (size_t c = 0; c < drawing.contours.size(); ++c) {
    for (const Dash& dash : drawing.contours[c]) {
      f(dash, p.thickness / 2, c < 2 ? p.contour_contrast : p.distractor_contrast);
    }
  }
  for (const Point& disc : drawing.discs) f(Dash{disc, disc}, p.marker_radius, int64_t{100});
}

// Half as large by Lanczos' filter of three lobes: 12 points for each pixel and direction, 6 on either side.
constexpr int64_t kScale = 2;
constexpr int64_t kTaps = 12;
constexpr int64_t kReach = 3;  ///< of the filter, in pixels
constexpr int64_t kOne = 1 << 14;

std::array<int64_t, kTaps> lanczos() {
  const auto sinc = [](double x) { return std::sin(std::numbers::pi * x) / (std::numbers::pi * x); };
  std::array<double, kTaps> taps{};
  double sum = 0;
  for (int64_t i = 0; i < kTaps; ++i) {
    const double x = (static_cast<double>(i) - 5.5) / kScale;
    taps[static_cast<size_t>(i)] = sinc(x) * sinc(x / kReach);
    sum += taps[static_cast<size_t>(i)];
  }
  std::array<int64_t, kTaps> whole{};
  for (size_t i = 0; i < kTaps; ++i) whole[i] = std::llround(taps[i] / sum * kOne);
  return whole;
}

/// Adds a stroke, smoothed, to a picture in hundredths of 1/255: the larger of the two is kept at each pixel.
void add(std::vector<int64_t>& picture, int64_t size, const Patch& patch, int64_t contrast) {
  static const std::array<int64_t, kTaps> taps = lanczos();
  const int64_t columns = patch.width / kScale - 2 * kReach;
  const int64_t rows = patch.height / kScale - 2 * kReach;
  // Pixel i of the inner part is made of the points 2 * i + 1 ... 2 * i + 12, counted from the patch's edge.
  std::vector<int64_t> across(static_cast<size_t>(patch.height * columns), 0);
  for (int64_t row = 0; row < patch.height; ++row) {
    const uint8_t* points = patch.points.data() + row * patch.width;
    for (int64_t column = 0; column < columns; ++column) {
      int64_t sum = 0;
      for (int64_t tap = 0; tap < kTaps; ++tap) {
        sum += taps[static_cast<size_t>(tap)] * points[kScale * column + 1 + tap];
      }
      across[static_cast<size_t>(row * columns + column)] = sum;
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t y = patch.top / kScale + kReach + row;
    if (y < 0 || y >= size) continue;
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t x = patch.left / kScale + kReach + column;
      if (x < 0 || x >= size) continue;
      int64_t sum = 0;
      for (int64_t tap = 0; tap < kTaps; ++tap) {
        sum +=
            taps[static_cast<size_t>(tap)] * across[static_cast<size_t>((kScale * row + 1 + tap) * columns + column)];
      }
      const int64_t grey = std::clamp<int64_t>((sum * 255 + kOne * kOne / 2) >> 28, 0, 255);
      int64_t& pixel = picture[static_cast<size_t>(y * size + x)];
      pixel = std::max(pixel, grey * contrast);
    }
  }
}

}  // namespace

std::vector<uint8_t> strokes(const Drawing& drawing, int64_t scale) {
  if (scale < 1 || kUnits % scale != 0) fail("pathfinder: {} points to a pixel do not divide {}", scale, kUnits);
  const int64_t side = drawing.parameters.size * scale;
  std::vector<uint8_t> picture(static_cast<size_t>(side * side), 0);
  for_each_stroke(drawing, [&](const Dash& dash, int64_t radius, int64_t) {
    const Patch patch = points_of(dash, radius, scale, 0);
    for (int64_t row = 0; row < patch.height; ++row) {
      for (int64_t column = 0; column < patch.width; ++column) {
        const int64_t x = patch.left + column;
        const int64_t y = patch.top + row;
        if (x < 0 || y < 0 || x >= side || y >= side) continue;
        if (patch.points[static_cast<size_t>(row * patch.width + column)] != 0) {
          picture[static_cast<size_t>(y * side + x)] = 255;
        }
      }
    }
  });
  return picture;
}

std::vector<uint8_t> render(const Drawing& drawing) {
  const int64_t size = drawing.parameters.size;
  std::vector<int64_t> picture(static_cast<size_t>(size * size), 0);
  for_each_stroke(drawing, [&](const Dash& dash, int64_t radius, int64_t contrast) {
    add(picture, size, points_of(dash, radius, kScale, 2 * kReach), contrast);
  });
  const auto [least, most] = std::minmax_element(picture.begin(), picture.end());
  const int64_t low = *least;
  const int64_t range = std::max<int64_t>(*most - low, 1);
  std::vector<uint8_t> pixels;
  pixels.reserve(picture.size());
  for (const int64_t value : picture) {
    pixels.push_back(static_cast<uint8_t>(((value - low) * 255 + range / 2) / range));
  }
  return pixels;
}

}  // namespace bochner::pathfinder
