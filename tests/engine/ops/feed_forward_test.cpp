#include "engine/ops/feed_forward.h"

#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "engine/ops/norm.h"
#include "engine/ops/unary.h"
#include "engine/sanitizer.h"
#include "tests/engine/ops/oracle.h"

namespace bochner {
namespace {

using namespace oracle;  // NOLINT

struct BlockCase {
  Shape shape;
  int64_t hidden;
};

FeedForwardWeights block_weights(int64_t dim, int64_t hidden, DType dtype, bool norm, bool biases, uint64_t seed) {
  FeedForwardWeights weights;
  weights.w1 = (strided({hidden, dim}, dtype, seed + 1) * (1 / std::sqrt(static_cast<double>(dim))));
  weights.w2 = (strided({dim, hidden}, dtype, seed + 2) * (1 / std::sqrt(static_cast<double>(hidden))));
  if (norm) {
    weights.gamma = values({dim}, dtype, seed + 3);
    weights.beta = values({dim}, dtype, seed + 4);
  }
  if (biases) {
    weights.b1 = values({hidden}, dtype, seed + 5);
    weights.b2 = values({dim}, dtype, seed + 6);
  }
  return weights;
}

/// The same in separate steps on whole tensors.
Tensor in_steps(const Tensor& x, const FeedForwardWeights& weights, const FeedForwardOptions& options) {
  const Tensor n = weights.gamma.defined() ? layer_norm(x, weights.gamma, weights.beta, options.eps).y : x.contiguous();
  const Tensor u = matmul(n, weights.w1.transpose(0, 1));
  const Tensor h = dropout(bias_activation(u, weights.b1, options.activation), options.inner);
  const Tensor s = bias_activation(matmul(h, weights.w2.transpose(0, 1)), weights.b2, Activation::identity);
  const Tensor y = dropout(s, options.outer);
  return options.residual ? x + y : y;
}

/// The gradients, in separate steps.
FeedForwardGradients back_in_steps(const Tensor& g, const Tensor& x, const FeedForwardWeights& weights,
                                   const FeedForwardOptions& options) {
  const int64_t dim = x.size(-1);
  const int64_t hidden = weights.w1.size(0);
  const bool norm = weights.gamma.defined();
  const NormResult made = norm ? layer_norm(x, weights.gamma, weights.beta, options.eps) : NormResult{x, {}};
  const Tensor n = made.y.reshape({-1, dim});
  const Tensor u = matmul(n, weights.w1.transpose(0, 1));
  const Tensor h = dropout(bias_activation(u, weights.b1, options.activation), options.inner);
  const Tensor e = dropout(g.contiguous(), options.outer).reshape({-1, dim});
  const Tensor dh = dropout(matmul(e, weights.w2), options.inner).view({-1, hidden});
  const Tensor bias = weights.b1.defined() ? weights.b1 : Tensor::zeros({hidden}, x.dtype());
  const BiasActivationGradients du = bias_activation_backward(dh, u, bias, options.activation);
  FeedForwardGradients result;
  result.weights.w2 = matmul(e.transpose(0, 1), h);
  result.weights.b2 = column_sum(e);
  result.weights.w1 = matmul(du.dx.transpose(0, 1), n);
  result.weights.b1 = du.dbias;
  result.dx = matmul(du.dx, weights.w1).view(x.shape());
  if (norm) {
    const NormGradients through = layer_norm_backward(result.dx, x, weights.gamma, made.statistics);
    result.dx = through.dx;
    result.weights.gamma = through.dgamma;
    result.weights.beta = through.dbeta;
  }
  if (options.residual) result.dx = result.dx + g;
  return result;
}

TEST(FeedForward, EqualsItsSteps) {
  const std::vector<BlockCase> cases = {{{3, 5}, 7},     {{1, 1}, 1},      {{2, 50, 64}, 128}, {{70, 33}, 300},
                                        {{200, 16}, 96}, {{97, 130}, 140}, {{1, 5}, 3}};
  uint64_t seed = 10;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Activation activation :
         {Activation::gelu, Activation::relu, Activation::gelu_tanh, Activation::identity}) {
      for (const int variant : {0, 1, 2, 3}) {
        for (const auto& [shape, hidden] : cases) {
          const FeedForwardWeights weights =
              block_weights(shape[-1], hidden, dtype, variant != 1, variant != 2, seed += 10);
          FeedForwardOptions options;
          options.activation = activation;
          options.eps = 1e-3;
          options.residual = variant != 3;
          if (variant % 2 == 1) options.inner = Dropout::at(0.3, Generator(seed, 4));
          if (variant >= 1) options.outer = Dropout::at(0.2, Generator(seed, 1000000));
          const Tensor x = strided(shape, dtype, seed + 7);
          const Tensor g = strided(shape, dtype, seed + 8);
          const double tolerance = dtype == DType::f32 ? 1e-4 : 1e-10;
          const FeedForwardResult fused = feed_forward(x, weights, options);
          expect_close(fused.y, in_steps(x, weights, options).to_vector<double>(), tolerance, "y");
          const FeedForwardGradients grads = feed_forward_backward(g, x, fused, weights, options);
          const FeedForwardGradients expected = back_in_steps(g, x, weights, options);
          const auto compare = [&](const char* name, const Tensor& got, const Tensor& wanted, bool defined) {
            ASSERT_EQ(got.defined(), defined) << name;
            if (defined) expect_close(got, wanted.to_vector<double>(), 10 * tolerance, name);
          };
          compare("dx", grads.dx, expected.dx, true);
          compare("dw1", grads.weights.w1, expected.weights.w1, true);
          compare("dw2", grads.weights.w2, expected.weights.w2, true);
          compare("db1", grads.weights.b1, expected.weights.b1, weights.b1.defined());
          compare("db2", grads.weights.b2, expected.weights.b2, weights.b2.defined());
          compare("dgamma", grads.weights.gamma, expected.weights.gamma, weights.gamma.defined());
          compare("dbeta", grads.weights.beta, expected.weights.beta, weights.beta.defined());
          const FeedForwardGradients frozen = feed_forward_backward(g, x, fused, weights, options, false);
          compare("dx of frozen weights", frozen.dx, expected.dx, true);
          compare("db1 of frozen weights", frozen.weights.b1, expected.weights.b1, weights.b1.defined());
          compare("dgamma of frozen weights", frozen.weights.gamma, expected.weights.gamma, weights.gamma.defined());
          EXPECT_FALSE(frozen.weights.w1.defined() || frozen.weights.w2.defined());
          if (HasFatalFailure()) FAIL() << shape.str() << " " << hidden << " " << name_of(activation) << " " << variant;
        }
      }
    }
  }
}

TEST(FeedForward, GradientsAgreeWithDifferences) {
  FeedForwardWeights weights = block_weights(5, 6, DType::f64, true, true, 3);
  weights.w1 = weights.w1.contiguous();
  weights.w2 = weights.w2.contiguous();
  FeedForwardOptions options;
  options.inner = Dropout::at(0.25, Generator(8));
  options.outer = Dropout::at(0.25, Generator(9));
  options.eps = 0.1;
  const Tensor x = values({4, 5}, DType::f64, 1);
  const Tensor g = values({4, 5}, DType::f64, 2);
  const FeedForwardResult made = feed_forward(x, weights, options);
  const FeedForwardGradients grads = feed_forward_backward(g, x, made, weights, options);
  const auto loss = [&] { return dot(g, feed_forward(x, weights, options).y); };
  expect_close(grads.dx, differences(loss, x), 1e-8, "dx");
  expect_close(grads.weights.gamma, differences(loss, weights.gamma), 1e-8, "dgamma");
  expect_close(grads.weights.beta, differences(loss, weights.beta), 1e-8, "dbeta");
  expect_close(grads.weights.w1, differences(loss, weights.w1), 1e-8, "dw1");
  expect_close(grads.weights.b1, differences(loss, weights.b1), 1e-8, "db1");
  expect_close(grads.weights.w2, differences(loss, weights.w2), 1e-8, "dw2");
  expect_close(grads.weights.b2, differences(loss, weights.b2), 1e-8, "db2");
}

TEST(FeedForward, BytesDoNotDependOnThreads) {
  for (const auto& [shape, hidden] : {BlockCase{{3001, 64}, 128}, BlockCase{{999, 40}, 300}}) {
    const FeedForwardWeights weights = block_weights(shape[-1], hidden, DType::f32, true, true, 3);
    FeedForwardOptions options;
    options.inner = Dropout::at(0.1, Generator(8));
    options.outer = Dropout::at(0.1, Generator(9));
    const Tensor x = values(shape, DType::f32, 1);
    const Tensor g = values(shape, DType::f32, 2);
    expect_same_bytes([&] {
      const FeedForwardResult made = feed_forward(x, weights, options);
      const FeedForwardGradients grads = feed_forward_backward(g, x, made, weights, options);
      const FeedForwardWeights& w = grads.weights;
      return std::vector<Tensor>{made.y, made.mean, made.rstd, grads.dx, w.gamma, w.beta, w.w1, w.b1, w.w2, w.b2};
    });
  }
}

TEST(FeedForward, WhatIsKeptChangesNoByte) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const FeedForwardWeights weights = block_weights(33, 300, dtype, true, true, 3);
    FeedForwardOptions options;
    options.inner = Dropout::at(0.1, Generator(8));
    const Tensor x = strided({2, 150, 33}, dtype, 1);
    const Tensor g = strided({2, 150, 33}, dtype, 2);
    std::vector<std::vector<Tensor>> results;
    for (const bool keep : {false, true}) {
      options.keep_hidden = keep;
      const FeedForwardResult made = feed_forward(x, weights, options);
      ASSERT_EQ(made.hidden.defined(), keep);
      if (keep) {
        EXPECT_EQ(made.hidden.shape(), Shape({2, 150, 300}));
      }
      const FeedForwardGradients grads = feed_forward_backward(g, x, made, weights, options);
      const FeedForwardWeights& w = grads.weights;
      results.push_back({made.y, grads.dx, w.gamma, w.beta, w.w1, w.b1, w.w2, w.b2});
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      EXPECT_EQ(results[0][i].to_vector<double>(), results[1][i].to_vector<double>()) << name_of(dtype) << ", " << i;
    }
  }
}

TEST(FeedForward, BytesDoNotDependOnWhereMemoryLies) {
  FeedForwardWeights weights = block_weights(16, 16, DType::f32, true, true, 3);
  FeedForwardOptions options;
  options.residual = true;
  options.inner = Dropout::at(0.1, Generator(8));
  options.outer = Dropout::at(0.1, Generator(9));
  const Tensor x = values({58, 16}, DType::f32, 1);
  const std::vector<float> expected = feed_forward(x, weights, options).y.to_vector<float>();
  // A gap of the size of y right after b2, which y then fills: loops that test for overlap take the careful path there.
  std::vector<Tensor> biases;
  int side_by_side = 0;
  for (int i = 0; i < 200; ++i) {
    weights.b2 = biases.emplace_back(weights.b2.clone());
    Tensor gap = Tensor::empty(x.shape(), DType::f32);
    gap = Tensor();
    const Tensor y = feed_forward(x, weights, options).y;
    if (y.data<float>() == weights.b2.data<float>() + weights.b2.size()) ++side_by_side;
    ASSERT_EQ(y.to_vector<float>(), expected) << i;
  }
  if (!BOCHNER_ADDRESS_SANITIZER) {
    EXPECT_GT(side_by_side, 0);
  }
}

TEST(FeedForward, NoRowsGiveZeroGradients) {
  const FeedForwardWeights weights = block_weights(5, 6, DType::f32, true, true, 3);
  const Tensor none = Tensor::zeros({0, 5});
  const FeedForwardResult made = feed_forward(none, weights);
  EXPECT_EQ(made.y.size(), 0);
  const FeedForwardGradients grads = feed_forward_backward(none, none, made, weights);
  expect_close(grads.weights.w1, Values(30), 0, "dw1");
  expect_close(grads.weights.gamma, Values(5), 0, "dgamma");
}

TEST(FeedForward, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 5});
  const FeedForwardWeights good = block_weights(5, 6, DType::f32, true, true, 3);
  EXPECT_THROW(feed_forward(Tensor::zeros({2, 4}), good), Error);
  FeedForwardWeights weights = good;
  weights.w2 = good.w1;
  EXPECT_THROW(feed_forward(x, weights), Error);
  weights = good;
  weights.b1 = good.b2;
  EXPECT_THROW(feed_forward(x, weights), Error);
  weights = good;
  weights.beta = Tensor();
  EXPECT_THROW(feed_forward(x, weights), Error);
  EXPECT_THROW(feed_forward(x.cast(DType::f64), good), Error);
  EXPECT_THROW(feed_forward(x, {}), Error);
  EXPECT_THROW(feed_forward_backward(Tensor::zeros({5, 2}), x, {}, good), Error);
  FeedForwardResult made = feed_forward(x, good, {.keep_hidden = true});
  EXPECT_NO_THROW(feed_forward_backward(x, x, made, good));
  made.hidden = Tensor::zeros({2, 5});
  EXPECT_THROW(feed_forward_backward(x, x, made, good), Error);
}

}  // namespace
}  // namespace bochner
