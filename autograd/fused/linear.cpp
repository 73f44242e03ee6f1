#include "autograd/fused/linear.h"

#include "autograd/fused/dropout.h"
#include "autograd/fused/norm.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"

namespace bochner {

Variable linear_composed(const Variable& x, const LinearVariables& weights, const Variable& residual,
                         const LinearSpec& spec) {
  const Variable n = weights.gamma.defined() ? layer_norm_composed(x, weights.gamma, weights.beta, spec.eps) : x;
  const Variable s = matmul_transposed(n, weights.w);
  const Variable shifted = weights.b.defined() ? s + weights.b : s;
  const Variable y = dropout_at(spec.relu ? relu(shifted) : shifted, spec.drop);
  return residual.defined() ? residual + y : y;
}

Variable linear(const Variable& x, const LinearVariables& weights, const Variable& residual, const LinearSpec& spec) {
  const LinearWeights values{weights.w.value(), weights.b.value(), weights.gamma.value(), weights.beta.value()};
  const LinearResult made = linear(x.value(), values, residual.value(), spec);
  const LinearResult kept{spec.relu ? made.y : Tensor(), made.mean, made.rstd};
  return record_fused(
      "linear", made.y, {x, weights.w, weights.b, weights.gamma, weights.beta, residual},
      [spec](const auto& in) {
        return linear_composed(in[0], {in[1], in[2], in[3], in[4]}, in[5], spec);
      },
      [values, spec, kept](const Tensor& g, const auto& in) -> Gradients {
        const LinearGradients grads =
            linear_backward(g, in[0].value(), kept, values, spec, {in[0].tracked(), in[1].tracked(), in[2].tracked()});
        const LinearWeights& w = grads.weights;
        return {grads.dx, w.w, w.b, w.gamma, w.beta, in[5].defined() ? Variable(g) : Variable()};
      });
}

}  // namespace bochner
