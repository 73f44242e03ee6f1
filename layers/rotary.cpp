#include "layers/rotary.h"

#include <cmath>

#include "autograd/ops/rotary.h"
#include "engine/bf16.h"

namespace bochner {

namespace {

/// p base^(-j / planes)
double angle_of(int64_t p, double base, int64_t j, int64_t planes) {
  return static_cast<double>(p) * std::pow(base, -static_cast<double>(j) / static_cast<double>(planes));
}

}  // namespace

RotaryPositions::RotaryPositions(int64_t length, int64_t dim, int64_t width) {
  if (dim < 2 || dim % 2 != 0) fail("rotary positions: they turn pairs of numbers, but a head has {}", dim);
  if (width > 0 && dim % 4 != 0) {
    fail(
        "rotary positions in two dimensions: a head must have a multiple of 4 numbers, a pair for rows and one for "
        "columns; it has {}",
        dim);
  }
  const int64_t planes = dim / 2;
  std::vector<double> cosines, sines;
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t j = 0; j < planes; ++j) {
      const int64_t half = planes / 2;
      const double angle = width == 0 ? angle_of(t, 10000, j, planes)
                           : j < half ? angle_of(t / width, 100, j, half)
                                      : angle_of(t % width, 100, j - half, half);
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
  cosines_ = Tensor::from(cosines, {length, dim / 2});
  sines_ = Tensor::from(sines, {length, dim / 2});
}

Variable RotaryPositions::turn(const Variable& x, int64_t turned, int64_t first) const {
  const int64_t length = first + x.size(1);
  if (length > cosines_.size(0)) {
    fail("rotary positions: a sequence of {} is longer than the longest, {}", length, cosines_.size(0));
  }
  const DType dtype = compute_dtype(x.dtype());
  if (!placed_cosines_.defined() || placed_cosines_.dtype() != dtype || placed_cosines_.device() != x.device()) {
    placed_cosines_ = cosines_.cast(dtype).to(x.device());
    placed_sines_ = sines_.cast(dtype).to(x.device());
  }
  return rotary(x, placed_cosines_.slice(0, first, length), placed_sines_.slice(0, first, length), turned);
}

}  // namespace bochner
