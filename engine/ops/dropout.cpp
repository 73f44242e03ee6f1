#include "engine/ops/dropout.h"

#include <cmath>

#include "engine/bf16.h"
#include "engine/kernel.h"

namespace bochner {

// y = x factor; all contiguous, of one size.
BOCHNER_KERNEL(kApply, "dropout", dropout, const Tensor& x, const Dropout& drop, const Tensor& y);
BOCHNER_KERNEL(kMask, "dropout", dropout_mask, const Dropout& drop, const Tensor& y);

Dropout Dropout::at(double p, const Generator& place) {
  if (!(p >= 0 && p <= 1)) fail("dropout: probability {} lies outside [0, 1]", p);
  return {static_cast<uint32_t>(std::lround(p * 65536)), place};
}

Dropout Dropout::draw(double p, int64_t count, Generator& generator) {
  const Dropout drop = at(p, generator);
  if (!drop.active()) return drop;
  return {drop.threshold, generator.reserve(ceil_div(static_cast<uint64_t>(count), 2))};
}

Tensor dropout(const Tensor& x, const Dropout& drop) {
  if (!drop.active()) return x;
  const Tensor y = Tensor::empty_like(x);
  kApply(x.device(), x.contiguous(), drop, y);
  return y;
}

Tensor dropout_mask(const Shape& shape, const Dropout& drop, DType dtype, Device device) {
  if (dtype == DType::bf16) return to_bf16(dropout_mask(shape, drop, DType::f32, device));
  const Tensor y = Tensor::empty(shape, dtype, device);
  kMask(device, drop, y);
  return y;
}

}  // namespace bochner
