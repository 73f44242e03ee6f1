#include "autograd/fused/norm.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"

namespace bochner {
namespace {

/// gamma (x - mean) / sqrt(variance + eps) + beta over that axis, with 1 for gamma and 0 for beta where undefined.
Variable normalised(const Variable& x, int axis, const Variable& gamma, const Variable& beta, double eps) {
  const Variable centred = x - mean(x, {axis}, true);
  const Variable unit = centred / sqrt(mean(square(centred), {axis}, true) + eps);
  const Variable scaled = gamma.defined() ? gamma * unit : unit;
  return beta.defined() ? scaled + beta : scaled;
}

}  // namespace

Variable layer_norm_composed(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  return normalised(x, -1, gamma, beta, eps);
}

Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  const NormResult made = layer_norm(x.value(), gamma.value(), beta.value(), eps);
  return record_fused(
      "layer_norm", made.y, {x, gamma, beta},
      [eps](const auto& in) { return layer_norm_composed(in[0], in[1], in[2], eps); },
      [statistics = made.statistics](const Tensor& g, const auto& in) -> Gradients {
        const NormGradients grads = layer_norm_backward(g, in[0].value(), in[1].value(), statistics);
        return {grads.dx, grads.dgamma, grads.dbeta};
      });
}

Variable batch_norm_composed(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  return normalised(x, 0, gamma, beta, eps);
}

Variable batch_norm(const Variable& x, const Variable& gamma, const Variable& beta, const ColumnMoments& running,
                    double momentum, double eps) {
  const NormResult made = batch_norm(x.value(), gamma.value(), beta.value(), running, momentum, eps);
  return record_fused(
      "batch_norm", made.y, {x, gamma, beta},
      [eps](const auto& in) { return batch_norm_composed(in[0], in[1], in[2], eps); },
      [statistics = made.statistics](const Tensor& g, const auto& in) -> Gradients {
        const NormGradients grads = batch_norm_backward(g, in[0].value(), in[1].value(), statistics);
        return {grads.dx, grads.dgamma, grads.dbeta};
      });
}

}  // namespace bochner
