#include "experiments/learners/coordinates/picture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "engine/error.h"
#include "engine/io/data_log.h"
#include "engine/io/elements.h"
#include "engine/io/png.h"
#include "engine/random.h"

namespace bochner::siren {
namespace {

/// The place of pixel i of n in [-1, 1].
double place(int64_t i, int64_t n) { return 2 * static_cast<double>(i) / static_cast<double>(n - 1) - 1; }

/// 1 where d is well below 0, 0 where it is well above, with a transition of about `width`.
double soft(double d, double width) { return 0.5 - 0.5 * std::tanh(d / width); }

double mix(double a, double b, double share) { return a + (b - a) * share; }

/// Brightness in [0, 1]; edges are blurred over `edge`.
double brightness(double y, double x, double edge) {
  double value = 0.35 + 0.25 * y + 0.05 * std::sin(3 * x);  // a wall, lighter below
  const double tiles = std::tanh(2 * std::sin(5 * std::numbers::pi * x) * std::sin(5 * std::numbers::pi * (y - 0.5)));
  value = mix(value, 0.55 + 0.2 * tiles, soft(0.45 - y, edge));
  const double ring = std::hypot(y + 0.5, x - 0.5);
  value = mix(value, 0.5 + 0.4 * std::cos(30 * ring), soft(ring - 0.35, edge));
  const double phase = 10 * (x + 1) + 30 * (x + 1) * (x + 1);  // stripes that grow finer to the right
  const double box = std::max(std::abs(x + 0.5) - 0.4, std::abs(y + 0.55) - 0.25);
  value = mix(value, 0.5 + 0.45 * std::sin(phase), soft(box, edge));
  const double shadow = std::hypot((x - 0.25) / 0.5, (y - 0.62) / 0.12);
  value *= 1 - 0.6 * std::exp(-shadow * shadow);
  const double ball = std::hypot(x, y - 0.2);
  const double shine = std::exp(-(std::pow(x + 0.12, 2) + std::pow(y - 0.05, 2)) / 0.03);
  return std::clamp(mix(value, 0.2 + 0.5 * (1 - ball) + 0.35 * shine, soft(ball - 0.38, edge)), 0.0, 1.0);
}

Picture with_derivatives(const Tensor& values) {
  Picture picture;
  picture.values = values;
  const int64_t height = values.size(0);
  const int64_t width = values.size(1);
  picture.gradient = Tensor::zeros({height, width, 2});
  picture.laplacian = Tensor::zeros({height, width});
  const double step_y = 2 / static_cast<double>(height - 1);
  const double step_x = 2 / static_cast<double>(width - 1);
  const float* const f = values.data<float>();
  for (int64_t y = 1; y + 1 < height; ++y) {
    for (int64_t x = 1; x + 1 < width; ++x) {
      const int64_t i = y * width + x;
      const double here = f[i];
      const double up = f[i - width];
      const double down = f[i + width];
      const double left = f[i - 1];
      const double right = f[i + 1];
      picture.gradient.data<float>()[2 * i] = static_cast<float>((down - up) / (2 * step_y));
      picture.gradient.data<float>()[2 * i + 1] = static_cast<float>((right - left) / (2 * step_x));
      picture.laplacian.data<float>()[i] = static_cast<float>((up + down - 2 * here) / (step_y * step_y) +
                                                              (left + right - 2 * here) / (step_x * step_x));
    }
  }
  return picture;
}

}  // namespace

Tensor Picture::coordinates() const {
  Tensor result = Tensor::empty({pixels(), 2});
  float* at = result.data<float>();
  for (int64_t y = 0; y < height(); ++y) {
    for (int64_t x = 0; x < width(); ++x) {
      *at++ = static_cast<float>(place(y, height()));
      *at++ = static_cast<float>(place(x, width()));
    }
  }
  return result;
}

Picture still_life(int64_t size) {
  if (size < 3) fail("siren: a picture of {} pixels a side; at least 3", size);
  Tensor values = Tensor::empty({size, size});
  const double edge = 3 / static_cast<double>(size);
  for (int64_t y = 0; y < size; ++y) {
    for (int64_t x = 0; x < size; ++x) {
      values.data<float>()[y * size + x] = static_cast<float>(2 * brightness(place(y, size), place(x, size), edge) - 1);
    }
  }
  log_generated("still-life", {bytes_of(values)});
  return with_derivatives(values);
}

Picture dead_leaves(int64_t size) {
  if (size < 3) fail("siren: a picture of {} pixels a side; at least 3", size);
  constexpr int64_t kSamples = 4;  // samples along a side of a pixel
  constexpr double kSmallest = 0.02;
  constexpr double kLargest = 0.5;
  const int64_t n = kSamples * size;
  const double pitch = 2 / static_cast<double>(n);  // samples lie at -1 + (i + 1/2) pitch
  std::vector<float> seen(static_cast<size_t>(n * n), std::numeric_limits<float>::quiet_NaN());
  Generator draw(1);
  const auto between = [&](double low, double high) { return low + (high - low) * draw.uniform(); };
  // Leaves from the nearest to the farthest: a sample keeps the first that covers it.
  for (int64_t open = n * n; open > 0;) {
    const double a = 1 / (kSmallest * kSmallest);
    const double b = 1 / (kLargest * kLargest);
    const double radius = 1 / std::sqrt(between(b, a));  // 1 / r^2 is uniform
    const double y0 = between(-1 - kLargest, 1 + kLargest);
    const double x0 = between(-1 - kLargest, 1 + kLargest);
    const double grey = between(-0.9, 0.9);
    const double slope_y = between(-0.3, 0.3) / radius;
    const double slope_x = between(-0.3, 0.3) / radius;
    const auto first = [&](double from) { return std::max<int64_t>(0, std::llround(std::floor((from + 1) / pitch))); };
    const auto last = [&](double to) { return std::min<int64_t>(n, std::llround(std::ceil((to + 1) / pitch))); };
    for (int64_t i = first(y0 - radius); i < last(y0 + radius); ++i) {
      const double y = (static_cast<double>(i) + 0.5) * pitch - 1 - y0;
      for (int64_t j = first(x0 - radius); j < last(x0 + radius); ++j) {
        float& sample = seen[static_cast<size_t>(i * n + j)];
        const double x = (static_cast<double>(j) + 0.5) * pitch - 1 - x0;
        if (!std::isnan(sample) || y * y + x * x > radius * radius) continue;
        sample = static_cast<float>(std::clamp(grey + slope_y * y + slope_x * x, -1.0, 1.0));
        --open;
      }
    }
  }
  Tensor values = Tensor::zeros({size, size});
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      values.data<float>()[i / kSamples * size + j / kSamples] +=
          seen[static_cast<size_t>(i * n + j)] / static_cast<float>(kSamples * kSamples);
    }
  }
  log_generated("dead-leaves", {bytes_of(values)});
  return with_derivatives(values);
}

Picture read_picture(const std::string& file) {
  const Tensor image = read_png(file);
  const int64_t channels = image.size(2);
  if (image.size(0) < 3 || image.size(1) < 3) {
    fail("{}: {} x {} pixels; at least 3 x 3 for derivatives", file, image.size(0), image.size(1));
  }
  Tensor values = Tensor::empty({image.size(0), image.size(1)});
  const uint8_t* pixel = image.data<uint8_t>();
  for (int64_t i = 0; i < values.size(); ++i, pixel += channels) {
    const double luma = channels < 3 ? pixel[0] : 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
    values.data<float>()[i] = static_cast<float>(luma / 127.5 - 1);
  }
  return with_derivatives(values);
}

double psnr(const Tensor& field, const Tensor& truth, double peak, int64_t margin) {
  if (field.shape() != truth.shape() || field.rank() < 2) {
    fail("psnr: {} against {}; both must be (height, width, ...)", field.str(), truth.str());
  }
  const auto inner = [margin](const Tensor& x) {
    return x.slice(0, margin, x.size(0) - margin).slice(1, margin, x.size(1) - margin).to_vector<double>();
  };
  return psnr(inner(field), inner(truth), peak);
}

double psnr(const std::vector<double>& values, const std::vector<double>& truths, double peak) {
  BOCHNER_ASSERT(values.size() == truths.size());
  double square = 0;
  for (size_t i = 0; i < values.size(); ++i) square += (values[i] - truths[i]) * (values[i] - truths[i]);
  if (square == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(peak * peak * static_cast<double>(values.size()) / square);
}

}  // namespace bochner::siren
