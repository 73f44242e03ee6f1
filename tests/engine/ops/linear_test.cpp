#include "engine/ops/linear.h"

#include "engine/ops/bias_activation.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "engine/ops/norm.h"
#include "engine/ops/unary.h"
#include "tests/engine/ops/oracle.h"

namespace bochner {
namespace {

using namespace oracle;  // NOLINT

struct LinearCase {
  Shape shape;
  int64_t outputs;
};

const std::vector<LinearCase>& cases() {
  static const std::vector<LinearCase> all = {{{3, 5}, 7},     {{1, 1}, 1},      {{2, 50, 64}, 192}, {{70, 33}, 300},
                                              {{200, 16}, 96}, {{97, 130}, 140}, {{1, 5}, 3}};
  return all;
}

LinearWeights linear_weights(int64_t inputs, int64_t outputs, DType dtype, bool norm, bool bias, uint64_t seed) {
  LinearWeights weights;
  weights.w = strided({outputs, inputs}, dtype, seed + 1) * (1 / std::sqrt(static_cast<double>(inputs)));
  if (norm) {
    weights.gamma = values({inputs}, dtype, seed + 2);
    weights.beta = values({inputs}, dtype, seed + 3);
  }
  if (bias) weights.b = values({outputs}, dtype, seed + 4);
  return weights;
}

/// The same in separate steps on whole tensors.
Tensor in_steps(const Tensor& x, const LinearWeights& weights, const Tensor& residual, const LinearSpec& spec) {
  const Tensor n = weights.gamma.defined() ? layer_norm(x, weights.gamma, weights.beta, spec.eps).y : x.contiguous();
  const Tensor s = bias_activation(matmul(n, weights.w.transpose(0, 1)), weights.b, Activation::identity);
  const Tensor y = dropout(spec.relu ? relu(s) : s, spec.drop);
  return residual.defined() ? residual + y : y;
}

/// The gradients, in separate steps. y is that of the op, so that both see the same sign for numbers near 0.
LinearGradients back_in_steps(const Tensor& g, const Tensor& x, const Tensor& y, const LinearWeights& weights,
                              const LinearSpec& spec) {
  const int64_t inputs = x.size(-1);
  const bool norm = weights.gamma.defined();
  const NormResult made = norm ? layer_norm(x, weights.gamma, weights.beta, spec.eps) : NormResult{x, {}};
  const Tensor e = dropout(spec.relu ? g * step(y) : g.contiguous(), spec.drop).reshape({-1, weights.w.size(0)});
  LinearGradients result;
  result.weights.w = matmul(e.transpose(0, 1), made.y.reshape({-1, inputs}));
  result.weights.b = column_sum(e);
  result.dx = matmul(e, weights.w).view(x.shape());
  if (norm) {
    const NormGradients through = layer_norm_backward(result.dx, x, weights.gamma, made.statistics);
    result.dx = through.dx;
    result.weights.gamma = through.dgamma;
    result.weights.beta = through.dbeta;
  }
  return result;
}

TEST(Linear, EqualsItsSteps) {
  uint64_t seed = 10;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (int variant = 0; variant < 24; ++variant) {
      const bool norm = (variant & 1) != 0;
      const bool relu = variant >= 16;
      const bool add = !relu && (variant & 2) != 0;
      const bool bias = (variant & 4) != 0;
      for (const auto& [shape, outputs] : cases()) {
        const LinearWeights weights = linear_weights(shape[-1], outputs, dtype, norm, bias, seed += 10);
        LinearSpec spec{.eps = 1e-3, .relu = relu};
        if ((variant & (relu ? 2 : 8)) != 0) spec.drop = Dropout::at(0.3, Generator(seed, 1000000));
        Shape out = shape;
        out[-1] = outputs;
        const Tensor x = strided(shape, dtype, seed + 5);
        const Tensor g = strided(out, dtype, seed + 6);
        const Tensor residual = add ? strided(out, dtype, seed + 7) : Tensor();
        const double tolerance = dtype == DType::f32 ? 1e-4 : 1e-10;
        const LinearResult fused = linear(x, weights, residual, spec);
        expect_close(fused.y, in_steps(x, weights, residual, spec).to_vector<double>(), tolerance, "y");
        const LinearGradients grads = linear_backward(g, x, fused, weights, spec);
        const LinearGradients expected = back_in_steps(g, x, fused.y, weights, spec);
        const auto compare = [&](const char* name, const Tensor& got, const Tensor& wanted, bool defined) {
          ASSERT_EQ(got.defined(), defined) << name;
          if (defined) expect_close(got, wanted.to_vector<double>(), 10 * tolerance, name);
        };
        compare("dx", grads.dx, expected.dx, true);
        compare("dw", grads.weights.w, expected.weights.w, true);
        compare("db", grads.weights.b, expected.weights.b, bias);
        compare("dgamma", grads.weights.gamma, expected.weights.gamma, norm);
        compare("dbeta", grads.weights.beta, expected.weights.beta, norm);
        const LinearGradients without = linear_backward(g, x, fused, weights, spec, {.x = false});
        EXPECT_EQ(without.dx.defined(), norm);
        compare("dw alone", without.weights.w, expected.weights.w, true);
        const LinearGradients frozen = linear_backward(g, x, fused, weights, spec, {.w = false, .b = false});
        compare("dx of frozen weights", frozen.dx, expected.dx, true);
        compare("dgamma of frozen weights", frozen.weights.gamma, expected.weights.gamma, norm);
        EXPECT_FALSE(frozen.weights.w.defined() || frozen.weights.b.defined());
        const LinearGradients biases = linear_backward(g, x, fused, weights, spec, {.w = false});
        compare("db alone", biases.weights.b, expected.weights.b, bias);
        if (HasFatalFailure()) FAIL() << shape.str() << " " << outputs << " variant " << variant;
      }
    }
  }
}

TEST(Linear, BitsDoNotDependOnTheNumberOfThreads) {
  const LinearWeights weights = linear_weights(64, 192, DType::f32, true, true, 5);
  const LinearSpec spec{.drop = Dropout::at(0.1, Generator(3))};
  const Tensor x = values({3000, 64}, DType::f32, 1);
  const Tensor g = values({3000, 192}, DType::f32, 2);
  expect_same_bytes([&] {
    const LinearResult fused = linear(x, weights, {}, spec);
    const LinearGradients grads = linear_backward(g, x, fused, weights, spec);
    return std::vector<Tensor>{fused.y, grads.dx, grads.weights.w, grads.weights.b, grads.weights.gamma};
  });
}

TEST(Linear, BitsOfFewPlainRowsDoNotDependOnTheNumberOfThreads) {
  const LinearWeights weights = linear_weights(300, 200, DType::f32, false, true, 5);
  const Tensor x = values({1500, 300}, DType::f32, 1);
  const Tensor g = values({1500, 200}, DType::f32, 2);
  for (const bool relu : {false, true}) {
    const LinearSpec spec{.relu = relu};
    expect_same_bytes([&] {
      const LinearResult made = linear(x, weights, {}, spec);
      const LinearGradients grads = linear_backward(g, x, made, weights, spec);
      return std::vector<Tensor>{made.y, grads.dx, grads.weights.w, grads.weights.b};
    });
  }
}

TEST(Linear, NoRowsGiveNoGradients) {
  const LinearWeights weights = linear_weights(4, 3, DType::f32, true, true, 1);
  const LinearResult fused = linear(Tensor::zeros({0, 4}), weights);
  EXPECT_EQ(fused.y.shape(), (Shape{0, 3}));
  const LinearGradients grads = linear_backward(Tensor::zeros({0, 3}), Tensor::zeros({0, 4}), fused, weights);
  for (const float value : grads.weights.w.to_vector<float>()) EXPECT_EQ(value, 0);
}

TEST(Linear, RefusesWhatDoesNotFit) {
  const LinearWeights weights = linear_weights(4, 3, DType::f32, true, true, 1);
  EXPECT_THROW(linear(Tensor::zeros({2, 5}), weights), Error);
  EXPECT_THROW(linear(Tensor::zeros({2, 4}, DType::f64), weights), Error);
  EXPECT_THROW(linear(Tensor::zeros({2, 4}), weights, Tensor::zeros({2, 4})), Error);
  EXPECT_THROW(linear(Tensor::zeros({2, 4}), weights, Tensor::zeros({2, 3}), {.relu = true}), Error);
  EXPECT_THROW(linear_backward(Tensor::zeros({2, 3}), Tensor::zeros({2, 4}),
                               {{}, Tensor::zeros({2}), Tensor::zeros({2})}, weights, {.relu = true}),
               Error);
  EXPECT_THROW(linear(Tensor::zeros({2, 4}), {{}}), Error);
  EXPECT_THROW(linear(Tensor::zeros({2, 4}), {weights.w, {}, weights.gamma}), Error);
  EXPECT_THROW(linear(Tensor::zeros({2, 4}), {weights.w, Tensor::zeros({4})}), Error);
}

}  // namespace
}  // namespace bochner
