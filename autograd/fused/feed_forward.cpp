#include "autograd/fused/feed_forward.h"

#include <utility>

#include "autograd/fused/bias_activation.h"
#include "autograd/fused/dropout.h"
#include "autograd/fused/norm.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/ops/linear.h"

namespace bochner {
namespace {

/// h = dropout(act(u + b1))
Tensor hidden_units(const Tensor& u, const Tensor& b1, const FeedForwardOptions& options) {
  const Tensor h = bias_activation(u, b1, options.activation);
  return options.inner.active() ? dropout(h, options.inner) : h;
}

}  // namespace

Variable feed_forward_composed(const Variable& x, const FeedForwardVariables& weights,
                               const FeedForwardOptions& options) {
  const Variable n = weights.gamma.defined() ? layer_norm_composed(x, weights.gamma, weights.beta, options.eps) : x;
  const Variable u = matmul_transposed(n, weights.w1);
  return feed_forward_from_composed(u, options.residual ? x : Variable(), weights, options);
}

Variable feed_forward_from_composed(const Variable& u, const Variable& residual, const FeedForwardVariables& weights,
                                    const FeedForwardOptions& options) {
  const Variable h = dropout_at(bias_activation_composed(u, weights.b1, options.activation), options.inner);
  const Variable s = matmul_transposed(h, weights.w2);
  const Variable y = dropout_at(weights.b2.defined() ? s + weights.b2 : s, options.outer);
  return residual.defined() ? residual + y : y;
}

Variable feed_forward(const Variable& x, const FeedForwardVariables& weights, const FeedForwardOptions& options) {
  const FeedForwardWeights values{weights.w1.value(), weights.b1.value(),    weights.w2.value(),
                                  weights.b2.value(), weights.gamma.value(), weights.beta.value()};
  FeedForwardOptions asked = options;
  asked.keep_hidden = options.keep_hidden && Tape::current() != nullptr;
  FeedForwardResult made = feed_forward(x.value(), values, asked);
  const Tensor y = std::exchange(made.y, Tensor());
  return record_fused(
      "feed_forward", y, {x, weights.w1, weights.b1, weights.w2, weights.b2, weights.gamma, weights.beta},
      [options](const auto& in) {
        return feed_forward_composed(in[0], {in[1], in[2], in[3], in[4], in[5], in[6]}, options);
      },
      [values, options, made](const Tensor& g, const auto& in) -> Gradients {
        const FeedForwardGradients grads =
            feed_forward_backward(g, in[0].value(), made, values, options, in[1].tracked() || in[3].tracked());
        const FeedForwardWeights& w = grads.weights;
        return {grads.dx, w.w1, w.b1, w.w2, w.b2, w.gamma, w.beta};
      });
}

// With the masks m1 and m2:  e = g m2,  dW2 = e^T h,  db2 = sum e,  du = (e W2) m1 act'(u + b1),  db1 = sum du
Variable feed_forward_from(const Variable& u, const Variable& residual, const FeedForwardVariables& weights,
                           const FeedForwardOptions& options) {
  const LinearWeights second{weights.w2.value(), weights.b2.value()};
  const LinearSpec spec{.drop = options.outer};
  const Tensor y = linear(hidden_units(u.value(), weights.b1.value(), options), second, residual.value(), spec).y;
  return record_fused(
      "feed_forward_from", y, {u, weights.b1, weights.w2, weights.b2, residual},
      [options](const auto& in) {
        return feed_forward_from_composed(in[0], in[4], {{}, in[1], in[2], in[3]}, options);
      },
      [second, spec, options](const Tensor& g, const auto& in) -> Gradients {
        const Tensor& kept = in[0].value();
        const Tensor& b1 = in[1].value();
        const LinearNeeds needs{in[0].tracked() || in[1].tracked(), in[2].tracked(), in[3].tracked()};
        const Tensor h = needs.w ? hidden_units(kept, b1, options) : kept;  // without dW2 its values do not matter
        const LinearGradients of_second = linear_backward(g, h, {}, second, spec, needs);
        BiasActivationGradients of_hidden;
        if (needs.x) {
          const Tensor dh = options.inner.active() ? dropout(of_second.dx, options.inner) : of_second.dx;
          of_hidden = bias_activation_backward(dh, kept, b1, options.activation);
        }
        return {of_hidden.dx, of_hidden.dbias, of_second.weights.w, of_second.weights.b,
                in[4].defined() ? Variable(g) : Variable()};
      });
}

}  // namespace bochner
