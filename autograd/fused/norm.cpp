#include "autograd/fused/norm.h"

#include "autograd/fused/dropout.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"

namespace bochner {

Variable layer_norm_composed(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  const Variable centred = x - mean(x, {-1}, true);
  const Variable variance = mean(square(centred), {-1}, true);
  return gamma * (centred / sqrt(variance + eps)) + beta;
}

Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  const LayerNorm normalised = layer_norm(x.value(), gamma.value(), beta.value(), eps);
  return record("layer_norm", normalised.y, {&x, &gamma, &beta},
                [x, gamma, beta, eps, statistics = normalised.statistics](const Variable& g) -> Gradients {
                  if (Tape* tape = Tape::current()) {
                    return tape->pull_back(
                        [eps](const auto& in) { return layer_norm_composed(in[0], in[1], in[2], eps); },
                        {x, gamma, beta}, g);
                  }
                  const LayerNormGradients grads = layer_norm_backward(g.value(), x.value(), gamma.value(), statistics);
                  return {grads.dx, grads.dgamma, grads.dbeta};
                });
}

// s = r + m x,  y = LayerNorm(s):  ds = dy through the norm + the gradient of s itself,  dr = ds,  dx = m ds
ResidualNorm residual_layer_norm(const Variable& x, const Variable& residual, const Variable& gamma,
                                 const Variable& beta, double eps, const Dropout& drop) {
  const ResidualLayerNorm made =
      residual_layer_norm(x.value(), residual.value(), gamma.value(), beta.value(), eps, drop);
  const auto backward = [x, residual, gamma, beta, eps, drop, s = made.sum,
                         statistics = made.statistics](const Gradients& g) -> Gradients {
    if (Tape* tape = Tape::current()) {
      const auto composed = [=](const std::vector<Variable>& in) {
        return layer_norm_composed(add_dropout_at(in[0], in[1], drop), in[2], in[3], eps);
      };
      Gradients result(4);
      if (g[1].defined()) result = tape->pull_back(composed, {x, residual, gamma, beta}, g[1]);
      if (!g[0].defined()) return result;
      const Variable through = dropout_at(g[0], drop);
      result[0] = result[0].defined() ? result[0] + through : through;
      result[1] = result[1].defined() ? result[1] + g[0] : g[0];
      return result;
    }
    if (!g[1].defined()) return {dropout_at(g[0], drop), g[0], Variable(), Variable()};
    const LayerNormGradients grads = layer_norm_backward(g[1].value(), s, gamma.value(), statistics, g[0].value());
    return {x.tracked() ? Variable(dropout(grads.dx, drop)) : Variable(), grads.dx, grads.dgamma, grads.dbeta};
  };
  const std::vector<Variable> outputs =
      record("residual_layer_norm", std::vector<Tensor>{made.sum, made.y}, {&x, &residual, &gamma, &beta}, backward);
  return {outputs[0], outputs[1]};
}

Variable batch_norm_composed(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  const Variable centred = x - mean(x, {0}, true);
  const Variable variance = mean(square(centred), {0}, true);
  return gamma * (centred / sqrt(variance + eps)) + beta;
}

Variable batch_norm(const Variable& x, const Variable& gamma, const Variable& beta, const ColumnMoments& running,
                    double momentum, double eps) {
  const BatchNorm made = batch_norm(x.value(), gamma.value(), beta.value(), running, momentum, eps);
  return record("batch_norm", made.y, {&x, &gamma, &beta},
                [x, gamma, beta, eps, statistics = made.statistics](const Variable& g) -> Gradients {
                  if (Tape* tape = Tape::current()) {
                    return tape->pull_back(
                        [eps](const auto& in) { return batch_norm_composed(in[0], in[1], in[2], eps); },
                        {x, gamma, beta}, g);
                  }
                  const LayerNormGradients grads = batch_norm_backward(g.value(), x.value(), gamma.value(), statistics);
                  return {grads.dx, grads.dgamma, grads.dbeta};
                });
}

}  // namespace bochner
