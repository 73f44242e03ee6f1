#include "autograd/fused/norm.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"

namespace bochner {

Variable layer_norm_composed(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  const Variable centred = x - mean(x, {-1}, true);
  const Variable variance = mean(square(centred), {-1}, true);
  return gamma * (centred / sqrt(variance + eps)) + beta;
}

Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  const NormResult normalised = layer_norm(x.value(), gamma.value(), beta.value(), eps);
  return record("layer_norm", normalised.y, {&x, &gamma, &beta},
                [x, gamma, beta, eps, statistics = normalised.statistics](const Variable& g) -> Gradients {
                  if (Tape* tape = Tape::current()) {
                    return tape->pull_back(
                        [eps](const auto& in) { return layer_norm_composed(in[0], in[1], in[2], eps); },
                        {x, gamma, beta}, g);
                  }
                  const NormGradients grads = layer_norm_backward(g.value(), x.value(), gamma.value(), statistics);
                  return {grads.dx, grads.dgamma, grads.dbeta};
                });
}

Variable batch_norm_composed(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  const Variable centred = x - mean(x, {0}, true);
  const Variable variance = mean(square(centred), {0}, true);
  return gamma * (centred / sqrt(variance + eps)) + beta;
}

Variable batch_norm(const Variable& x, const Variable& gamma, const Variable& beta, const ColumnMoments& running,
                    double momentum, double eps) {
  const NormResult made = batch_norm(x.value(), gamma.value(), beta.value(), running, momentum, eps);
  return record("batch_norm", made.y, {&x, &gamma, &beta},
                [x, gamma, beta, eps, statistics = made.statistics](const Variable& g) -> Gradients {
                  if (Tape* tape = Tape::current()) {
                    return tape->pull_back(
                        [eps](const auto& in) { return batch_norm_composed(in[0], in[1], in[2], eps); },
                        {x, gamma, beta}, g);
                  }
                  const NormGradients grads = batch_norm_backward(g.value(), x.value(), gamma.value(), statistics);
                  return {grads.dx, grads.dgamma, grads.dbeta};
                });
}

}  // namespace bochner
