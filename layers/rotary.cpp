#include "layers/rotary.h"

#include <cmath>

#include "autograd/ops/rotary.h"
#include "engine/bf16.h"

namespace bochner {

RotaryPositions::RotaryPositions(int64_t length, int64_t dim) {
  if (dim < 2 || dim % 2 != 0) fail("rotary positions: they turn pairs of numbers, but a head has {}", dim);
  std::vector<double> cosines, sines;
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t j = 0; j < dim / 2; ++j) {
      const double angle =
          static_cast<double>(t) * std::pow(10000.0, -2 * static_cast<double>(j) / static_cast<double>(dim));
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
