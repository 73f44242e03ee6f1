#include "autograd/fused/feed_forward.h"

#include "autograd/fused/bias_activation.h"
#include "autograd/fused/dropout.h"
#include "autograd/fused/norm.h"
#include "autograd/op_info.h"
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
  const FeedForwardResult made = feed_forward(x.value(), values, options);
  const auto backward = [inputs = inputs_of(x, weights), values, options, mean = made.mean,
                         rstd = made.rstd](const Gradients& g) -> Gradients {
    if (Tape* tape = Tape::current()) {
      return tape->pull_back([&](const auto& in) { return feed_forward_composed(in[0], weights_in(in), options); },
                             inputs, g[0]);
    }
    const FeedForwardGradients grads =
        feed_forward_backward(g[0].value(), inputs[0].value(), mean, rstd, values, options);
    const FeedForwardWeights& w = grads.weights;
    return {grads.dx, w.gamma, w.beta, w.w1, w.b1, w.w2, w.b2};
  };
  return record("feed_forward", std::vector<Tensor>{made.y}, inputs_of(x, weights), backward)[0];
}

void describe_feed_forward(OpInfos& infos) {
  OpInfo info{"feed_forward",
              "y = x + dropout(dropout(act(LayerNorm(x) W1^T + b1)) W2^T + b2)",
              "Vaswani et al., 2017; norm in front: Xiong et al., 2020",
              {},
              {}};
  uint64_t seed = 2300;
  for (const bool norm : {true, false}) {
    for (const Shape& shape : {Shape{4, 5}, Shape{1, 1}, Shape{3, 7}, Shape{2, 2, 6}, Shape{0, 4}, Shape{130, 3}}) {
      const int64_t dim = shape[-1];
      const int64_t hidden = 4 + dim % 3;
      for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
        FeedForwardOptions options;
        options.activation = seed % 2 == 0 ? Activation::gelu : Activation::gelu_tanh;
        options.eps = 0.1;  // large, so that rows of nearly equal values stay far from singular
        if (seed % 3 != 0) options.inner = Dropout::at(0.25, Generator(seed));
        if (seed % 3 != 1) options.outer = Dropout::at(0.25, Generator(seed, 1000));
        std::vector<Tensor> inputs{x, sample_values({hidden, dim}, ++seed, -1, 1), sample_values({hidden}, ++seed),
                                   sample_values({dim, hidden}, ++seed, -1, 1), sample_values({dim}, ++seed)};
        if (norm) inputs.insert(inputs.end(), {sample_values({dim}, ++seed), sample_values({dim}, ++seed)});
        const auto weights = [norm](const std::vector<Variable>& in) {
          FeedForwardVariables w{{}, {}, in[1], in[2], in[3], in[4]};
          if (norm) w.gamma = in[5], w.beta = in[6];
          return w;
        };
        info.samples.push_back(
            {label + (norm ? "" : " without norm"), inputs,
             [=](const std::vector<Variable>& in) { return feed_forward(in[0], weights(in), options); },
             [=](const std::vector<Variable>& in) { return feed_forward_composed(in[0], weights(in), options); }});
      }
    }
  }
  info.composition = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  info.refused = {[] {
    const Variable w = Tensor::zeros({4, 3});
    feed_forward(Variable(Tensor::zeros({2, 3})), {{}, {}, w, {}, w, {}});
  }};
  infos.push_back(info);
}

}  // namespace bochner
