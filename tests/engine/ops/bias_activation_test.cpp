#include "engine/ops/bias_activation.h"

#include "tests/engine/ops/oracle.h"

namespace bochner {
namespace {

using namespace oracle;  // NOLINT

constexpr Activation kAll[] = {Activation::identity, Activation::relu, Activation::gelu, Activation::gelu_tanh};

double forward(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::identity:
      break;
  }
  return x;
}

double derivative(Activation activation, double x) {
  if (activation == Activation::relu) return x > 0 ? 1 : 0;
  const double h = 1e-4;  // fourth order
  return (8 * (forward(activation, x + h) - forward(activation, x - h)) -
          (forward(activation, x + 2 * h) - forward(activation, x - 2 * h))) /
         (12 * h);
}

TEST(BiasActivation, EqualsPlainLoops) {
  uint64_t seed = 1;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Activation activation : kAll) {
      for (const bool with_bias : {true, false}) {
        for (const Shape& shape : {Shape{3, 5}, Shape{1, 1}, Shape{7, 64}, Shape{2, 300, 33}, Shape{0, 8}, Shape{4, 0},
                                   Shape{3, 2500}, Shape{19}}) {
          const Tensor x = strided(shape, dtype, ++seed);
          const Tensor g = strided(shape, dtype, ++seed);
          const Tensor bias = with_bias ? values({shape[-1]}, dtype, ++seed) : Tensor();
          const auto xs = x.to_vector<double>();
          const auto gs = g.to_vector<double>();
          const auto bs = with_bias ? bias.to_vector<double>() : Values(static_cast<size_t>(shape[-1]), 0.0);
          Values y, dx, dbias(bs.size());
          for (size_t i = 0; i < xs.size(); ++i) {
            // The kernel adds in its own precision.
            const double at =
                dtype == DType::f32
                    ? static_cast<double>(static_cast<float>(xs[i]) + static_cast<float>(bs[i % bs.size()]))
                    : xs[i] + bs[i % bs.size()];
            y.push_back(forward(activation, at));
            dx.push_back(gs[i] * derivative(activation, at));
            dbias[i % bs.size()] += dx.back();
          }
          const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-10;
          expect_close(bias_activation(x, bias, activation), y, tolerance, "y");
          const BiasActivationGradients grads = bias_activation_backward(g, x, bias, activation);
          expect_close(grads.dx, dx, 2 * tolerance, "dx");
          EXPECT_EQ(grads.dbias.defined(), with_bias);
          if (with_bias) expect_close(grads.dbias, dbias, 100 * tolerance, "dbias");
        }
      }
    }
  }
}

TEST(BiasActivation, FarTailsAreExact) {
  for (const Activation activation : kAll) {
    const Tensor x = Tensor::from<float>({-1e30f, -100, -20, 20, 100, 1e30f, 0}, {7});
    const auto y = bias_activation(x, {}, activation).to_vector<double>();
    const auto slope = bias_activation_backward(Tensor::full({7}, 1), x, {}, activation).dx.to_vector<double>();
    const bool keeps = activation == Activation::identity;
    const Values expected = keeps ? x.to_vector<double>() : Values{0, 0, 0, 20, 100, x.to_vector<double>()[5], 0};
    for (size_t i = 0; i < 7; ++i) EXPECT_EQ(y[i], expected[i]) << name_of(activation) << " at " << i;
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(slope[i], keeps ? 1 : 0) << name_of(activation) << " at " << i;
    for (size_t i = 3; i < 6; ++i) EXPECT_EQ(slope[i], 1) << name_of(activation) << " at " << i;
  }
}

TEST(BiasActivation, NaNStaysNaN) {
  for (const Activation activation : kAll) {
    const Tensor x = Tensor::full({20}, NAN);
    for (const double y : bias_activation(x, {}, activation).to_vector<double>()) {
      EXPECT_TRUE(std::isnan(y)) << name_of(activation);
    }
  }
}

TEST(BiasActivation, ColumnSumEqualsPlainLoops) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{0, 3}, Shape{1, 1}, Shape{5, 7}, Shape{1000, 64}, Shape{33, 5000}, Shape{3, 4, 5},
                               Shape{70000, 3}, Shape{17}, Shape{3, 0}}) {
      const Tensor x = strided(shape, dtype, 9);
      const auto xs = x.to_vector<double>();
      Values expected(static_cast<size_t>(shape[-1]));
      for (size_t i = 0; i < xs.size(); ++i) expected[i % expected.size()] += xs[i];
      expect_close(column_sum(x), expected, 20 * tolerance_of(dtype), "sum");
    }
  }
}

TEST(BiasActivation, BytesDoNotDependOnThreads) {
  const Tensor x = values({3001, 129}, DType::f32, 1);
  const Tensor g = values({3001, 129}, DType::f32, 2);
  const Tensor bias = values({129}, DType::f32, 3);
  for (const Activation activation : kAll) {
    expect_same_bytes([&] {
      const BiasActivationGradients grads = bias_activation_backward(g, x, bias, activation);
      return std::vector<Tensor>{bias_activation(x, bias, activation), grads.dx, grads.dbias, column_sum(x)};
    });
  }
}

TEST(BiasActivation, NamesAndRefusals) {
  for (const Activation activation : kAll) EXPECT_EQ(activation_named(name_of(activation)), activation);
  EXPECT_THROW(activation_named("swish2"), Error);
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_THROW(bias_activation(x, Tensor::zeros({2}), Activation::relu), Error);
  EXPECT_THROW(bias_activation(Tensor::zeros({2, 3}, DType::i32), {}, Activation::relu), Error);
  EXPECT_THROW(bias_activation_backward(Tensor::zeros({3, 2}), x, {}, Activation::relu), Error);
  EXPECT_THROW(column_sum(Tensor::scalar(1)), Error);
}

}  // namespace
}  // namespace bochner
