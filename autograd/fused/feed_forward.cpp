#include "autograd/fused/feed_forward.h"

#include <utility>

#include "autograd/fused/bias_activation.h"
#include "autograd/fused/dropout.h"
#include "autograd/fused/norm.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/random.h"

namespace bochner {
namespace {

/// x, gamma, beta, w1, b1, w2, b2
std::vector<Variable> inputs_of(const Variable& x, const FeedForwardVariables& w) {
  return {x, w.gamma, w.beta, w.w1, w.b1, w.w2, w.b2};
}

FeedForwardVariables weights_in(const std::vector<Variable>& in) { return {in[1], in[2], in[3], in[4], in[5], in[6]}; }

}  // namespace

Variable feed_forward_composed(const Variable& x, const FeedForwardVariables& weights,
                               const FeedForwardOptions& options) {
  const Variable n = weights.gamma.defined() ? layer_norm_composed(x, weights.gamma, weights.beta, options.eps) : x;
  const Variable u = matmul(n, transpose(weights.w1, 0, 1));
  const Variable h = dropout_at(bias_activation_composed(u, weights.b1, options.activation), options.inner);
  const Variable s = matmul(h, transpose(weights.w2, 0, 1));
  const Variable y = dropout_at(weights.b2.defined() ? s + weights.b2 : s, options.outer);
  return options.residual ? x + y : y;
}

Variable feed_forward(const Variable& x, const FeedForwardVariables& weights, const FeedForwardOptions& options) {
  const FeedForwardWeights values{weights.gamma.value(), weights.beta.value(), weights.w1.value(),
                                  weights.b1.value(),    weights.w2.value(),   weights.b2.value()};
  FeedForwardOptions asked = options;
  asked.keep_hidden = options.keep_hidden && Tape::current() != nullptr;
  FeedForwardResult made = feed_forward(x.value(), values, asked);
  const std::vector<Tensor> outputs = {std::exchange(made.y, Tensor())};
  const auto backward = [inputs = inputs_of(x, weights), values, options, made](const Gradients& g) -> Gradients {
    if (Tape* tape = Tape::current()) {
      return tape->pull_back([&](const auto& in) { return feed_forward_composed(in[0], weights_in(in), options); },
                             inputs, g[0]);
    }
    const FeedForwardGradients grads = feed_forward_backward(g[0].value(), inputs[0].value(), made, values, options,
                                                             inputs[3].tracked() || inputs[5].tracked());
    const FeedForwardWeights& w = grads.weights;
    return {grads.dx, w.gamma, w.beta, w.w1, w.b1, w.w2, w.b2};
  };
  return record("feed_forward", outputs, inputs_of(x, weights), backward)[0];
}

}  // namespace bochner
