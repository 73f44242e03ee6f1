#include "engine/ops/dropout.h"

#include "engine/cpu/dropout.h"
#include "engine/kernel.h"
#if defined(BOCHNER_CUDA)
#include "engine/cuda/dropout.h"
#endif

namespace bochner {
namespace {

constexpr Kernel<void(const Tensor&, double, const Generator&, const Tensor&)> kDropout{"dropout", &cpu::dropout,
                                                                                        CUDA_KERNEL(dropout)};

}  // namespace

Tensor dropout(const Tensor& x, double p, const Generator& place) {
  if (!(p >= 0 && p < 1)) fail("dropout: probability {} must be at least 0 and below 1", p);
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  kDropout(x.device(), x.contiguous(), p, place, y);
  return y;
}

}  // namespace bochner
