// The promises of the ops of autograd/fused/feed_forward.h, and samples to check them.
#include "autograd/fused/feed_forward.h"
#include "autograd/fused/bias_activation.h"
#include "autograd/fused/dropout.h"
#include "autograd/fused/norm.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/random.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_feed_forward(OpInfos& infos) {
  OpInfo info{"feed_forward",
              "y = x + dropout(dropout(act(LayerNorm(x) W1^T + b1)) W2^T + b2)",
              "Vaswani et al., 2017; norm in front: Xiong et al., 2020",
              {},
              {}};
  uint64_t seed = 2300;
  for (const bool norm : {true, false}) {
    for (const Shape& shape :
         {Shape{4, 5}, Shape{1, 1}, Shape{3, 7}, Shape{2, 2, 6}, Shape{0, 4}, Shape{130, 3}, Shape{5}}) {
      const int64_t dim = shape[-1];
      const int64_t hidden = 4 + dim % 3;
      for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
        FeedForwardOptions options;
        options.activation = seed % 2 == 0 ? Activation::gelu : Activation::gelu_tanh;
        options.eps = 0.1;  // large, so that rows of nearly equal values stay far from singular
        if (seed % 3 != 0) options.inner = Dropout::at(0.25, Generator(seed));
        if (seed % 3 != 1) options.outer = Dropout::at(0.25, Generator(seed, 1000));
        options.keep_hidden = seed % 4 < 2;
        std::vector<Tensor> inputs{x, sample_values({hidden, dim}, ++seed, -1, 1), sample_values({hidden}, ++seed),
                                   sample_values({dim, hidden}, ++seed, -1, 1), sample_values({dim}, ++seed)};
        if (norm) inputs.insert(inputs.end(), {sample_values({dim}, ++seed), sample_values({dim}, ++seed)});
        const auto weights = [norm](const std::vector<Variable>& in) {
          FeedForwardVariables w{in[1], in[2], in[3], in[4]};
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
    feed_forward(Variable(Tensor::zeros({2, 3})), {w, {}, w});
  }};
  infos.push_back(info);
}

void describe_feed_forward_from(OpInfos& infos) {
  OpInfo info{
      "feed_forward_from", "y = residual + dropout(dropout(act(u + b1)) W2^T + b2)", "Vaswani et al., 2017", {}, {}};
  uint64_t seed = 2700;
  for (const bool add : {true, false}) {
    for (const Shape& shape : {Shape{4, 5}, Shape{1, 1}, Shape{2, 2, 6}, Shape{0, 4}, Shape{130, 3}, Shape{5}}) {
      for (const auto& [label, u] : sample_layouts(shape, ++seed)) {
        const int64_t dim = 1 + static_cast<int64_t>(seed % 4);
        FeedForwardOptions options;
        options.activation = seed % 2 == 0 ? Activation::gelu : Activation::gelu_tanh;
        if (seed % 3 != 0) options.inner = Dropout::at(0.25, Generator(seed));
        if (seed % 3 != 1) options.outer = Dropout::at(0.25, Generator(seed, 1000));
        std::vector<Tensor> inputs{u, sample_values({shape[-1]}, ++seed),
                                   sample_values({dim, shape[-1]}, ++seed, -1, 1), sample_values({dim}, ++seed)};
        if (add) {
          Shape whole = shape;
          whole[-1] = dim;
          inputs.push_back(sample_values(whole, ++seed));
        }
        const auto weights = [](const std::vector<Variable>& in) {
          return FeedForwardVariables{{}, in[1], in[2], in[3]};
        };
        const auto residual = [add](const std::vector<Variable>& in) { return add ? in.back() : Variable(); };
        info.samples.push_back({label + (add ? " with residual" : ""), inputs,
                                [=](const std::vector<Variable>& in) {
                                  return feed_forward_from(in[0], residual(in), weights(in), options);
                                },
                                [=](const std::vector<Variable>& in) {
                                  return feed_forward_from_composed(in[0], residual(in), weights(in), options);
                                }});
      }
    }
  }
  info.composition = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  info.refused = {[] {
    const Variable w = Tensor::zeros({4, 3});
    feed_forward_from(Variable(Tensor::zeros({2, 4})), {}, {{}, {}, w});
  }};
  infos.push_back(info);
}

const bool kFeedForwardDescribed = add_family(describe_feed_forward) && add_family(describe_feed_forward_from);

}  // namespace bochner
