#include "layers/rotary.h"

#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/view.h"

namespace bochner {

RotaryPositions::RotaryPositions(int64_t length, int64_t dim) : dim_(dim) {
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

Variable RotaryPositions::turn(const Variable& x, int64_t first) const {
  const int64_t length = first + x.size(-2);
  if (length > cosines_.size(0)) {
    fail("rotary positions: a sequence of {} is longer than the longest, {}", length, cosines_.size(0));
  }
  if (!placed_cosines_.defined() || placed_cosines_.dtype() != x.dtype() || placed_cosines_.device() != x.device()) {
    placed_cosines_ = cosines_.cast(x.dtype()).to(x.device());
    placed_sines_ = sines_.cast(x.dtype()).to(x.device());
  }
  const Variable c = placed_cosines_.slice(0, first, length);
  const Variable s = placed_sines_.slice(0, first, length);
  const Variable a = slice(x, -1, 0, dim_ / 2);
  const Variable b = slice(x, -1, dim_ / 2, dim_);
  return concat({a * c - b * s, a * s + b * c}, -1);
}

}  // namespace bochner
