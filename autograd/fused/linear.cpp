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
  const std::vector<Variable> inputs{x, weights.w, weights.b, weights.gamma, weights.beta, residual};
  const LinearResult kept{spec.relu ? made.y : Tensor(), made.mean, made.rstd};
  const auto backward = [inputs, values, spec, kept](const Gradients& g) -> Gradients {
    if (Tape* tape = Tape::current()) {
      const auto plain = [&](const std::vector<Variable>& in) {
        return linear_composed(in[0], {in[1], in[2], in[3], in[4]}, in[5], spec);
      };
      return tape->pull_back(plain, inputs, g[0]);
    }
    const LinearGradients grads = linear_backward(g[0].value(), inputs[0].value(), kept, values, spec,
                                                  {inputs[0].tracked(), inputs[1].tracked(), inputs[2].tracked()});
    const LinearWeights& w = grads.weights;
    return {grads.dx, w.w, w.b, w.gamma, w.beta, inputs[5].defined() ? g[0] : Variable()};
  };
  return record("linear", std::vector<Tensor>{made.y}, inputs, backward)[0];
}

}  // namespace bochner
