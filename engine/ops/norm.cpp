#include "engine/ops/norm.h"

#include "engine/cpu/norm.h"
#include "engine/kernel.h"
#if defined(BOCHNER_CUDA)
#include "engine/cuda/norm.h"
#endif

namespace bochner {
namespace {

using T = const Tensor&;
constexpr Kernel<void(T, T, T, double, T, T, T)> kForward{"layer_norm", &cpu::layer_norm, CUDA_KERNEL(layer_norm)};
constexpr Kernel<void(T, T, T, T, T, T, T, T)> kBackward{"layer_norm_backward", &cpu::layer_norm_backward,
                                                         CUDA_KERNEL(layer_norm_backward)};

Tensor rows_of(const Tensor& x) {
  return x.contiguous().view({x.size(-1) == 0 ? 0 : x.size() / x.size(-1), x.size(-1)});
}

}  // namespace

LayerNorm layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps) {
  if (x.rank() < 1) fail("layer_norm: {} has no axis to normalise", x.shape().str());
  const Shape d{x.size(-1)};
  if (!(gamma.shape() == d) || !(beta.shape() == d)) {
    fail("layer_norm: gamma {} and beta {} must have shape {} for x {}", gamma.shape().str(), beta.shape().str(),
         d.str(), x.shape().str());
  }
  const Tensor rows = rows_of(x);
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const Tensor mean = Tensor::empty({rows.size(0)}, x.dtype(), x.device());
  const Tensor rstd = Tensor::empty({rows.size(0)}, x.dtype(), x.device());
  kForward(x.device(), rows, gamma.contiguous(), beta.contiguous(), eps, y.view(rows.shape()), mean, rstd);
  return {y, mean, rstd};
}

LayerNormGradients layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                       const Tensor& rstd) {
  const Tensor rows = rows_of(x);
  const Tensor dx = Tensor::empty(x.shape(), x.dtype(), x.device());
  const Tensor dgamma = Tensor::empty(gamma.shape(), x.dtype(), x.device());
  const Tensor dbeta = Tensor::empty(gamma.shape(), x.dtype(), x.device());
  kBackward(x.device(), rows_of(g), rows, gamma.contiguous(), mean, rstd, dx.view(rows.shape()), dgamma, dbeta);
  return {dx, dgamma, dbeta};
}

}  // namespace bochner
