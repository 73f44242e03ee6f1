// NaN stays NaN through every op, so that a model that diverged shows it in its loss.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/ops/binary.h"
#include "engine/ops/gaussian.h"
#include "engine/ops/linear.h"
#include "engine/ops/softmax.h"
#include "engine/ops/unary.h"

namespace bochner {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t not_numbers(const Tensor& x) {
  int64_t count = 0;
  for (const double value : x.to_vector<double>()) count += std::isnan(value) ? 1 : 0;
  return count;
}

TEST(NaN, PassesReluAlsoWithinALinearLayer) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_EQ(not_numbers(relu(Tensor::full({37}, kNaN, dtype))), 37);
    LinearSpec spec;
    spec.relu = true;
    const Tensor x = Tensor::full({5, 8}, kNaN, dtype);
    EXPECT_EQ(not_numbers(linear(x, {Tensor::full({3, 8}, 1, dtype), Tensor::full({3}, 1, dtype)}, {}, spec).y), 15);
  }
}

TEST(NaN, MakesARowOfSoftmaxNotANumber) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor rows = Tensor::from<double>({kNaN, kNaN, kNaN, -kInfinity, kNaN, 1, -kInfinity, -kInfinity}, {4, 2});
    const Tensor x = rows.cast(dtype);
    const auto weights = softmax(x).to_vector<double>();
    for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(std::isnan(weights[i])) << i;
    for (size_t i = 6; i < 8; ++i) EXPECT_EQ(weights[i], 0) << "a row of -inf";
    const auto sums = logsumexp(x).to_vector<double>();
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(sums[i])) << i;
    EXPECT_EQ(sums[3], -kInfinity);
  }
}

TEST(NaN, StaysInALargestOfTwoAndBesideInfinity) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor a = Tensor::from<double>({kNaN, 1, kNaN, 2}, {4}).cast(dtype);
    const Tensor b = Tensor::from<double>({1, kNaN, kNaN, 3}, {4}).cast(dtype);
    EXPECT_EQ(not_numbers(maximum(a, b)), 3);
    EXPECT_EQ(not_numbers(minimum(a, b)), 3);
    const Tensor rows =
        Tensor::from<double>({kInfinity, kNaN, kInfinity, 1, kInfinity, -kInfinity}, {3, 2}).cast(dtype);
    const auto sums = logsumexp(rows).to_vector<double>();
    EXPECT_TRUE(std::isnan(sums[0]));
    EXPECT_EQ(sums[1], kInfinity);
    EXPECT_EQ(sums[2], kInfinity);
  }
}

TEST(NaN, OfATokenMakesItsGaussianKernelNotANumber) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = Tensor::full({1, 1, 2, 3}, 0.5, dtype);
    x.slice(2, 0, 1).fill_(kNaN);
    const Tensor y = Tensor::full({1, 1, 4, 3}, 0.25, dtype);
    EXPECT_EQ(not_numbers(gaussian_kernel(x, y, Tensor())), 4);
  }
}

TEST(Infinity, HasADerivativeWhereTheFunctionHasALimitLine) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = Tensor::from<double>({-kInfinity, kInfinity}, {2}).cast(dtype);
    const auto slopes = [&](const auto& op) {
      return apply_backward(op, Tensor::full({2}, 1, dtype), x, apply(op, x)).template to_vector<double>();
    };
    using Slopes = std::vector<double>;
    EXPECT_EQ(slopes(unary::Sign{}), (Slopes{0, 0}));
    EXPECT_EQ(slopes(unary::Step{}), (Slopes{0, 0}));
    EXPECT_EQ(slopes(unary::PowScalar{0}), (Slopes{0, 0}));
    EXPECT_EQ(slopes(unary::Relu{}), (Slopes{0, 1}));
    EXPECT_EQ(slopes(unary::Elu{}), (Slopes{0, 1}));
    EXPECT_EQ(slopes(unary::Clamp{}), (Slopes{0, 0}));
  }
}

TEST(Clamp, ToAnEmptyIntervalIsRefused) {
  EXPECT_THROW(clamp(Tensor::zeros({3}), 1, -1), Error);
  EXPECT_THROW(clamp(Tensor::zeros({3}), kNaN, 1), Error);
  EXPECT_EQ(clamp(Tensor::zeros({1}), 2, 2).item(), 2);
}

TEST(Linear, WithoutInputsIsRefused) {
  EXPECT_THROW(linear(Tensor::zeros({3, 0}), {Tensor::zeros({4, 0}), Tensor::full({4}, 5)}, {}, {}), Error);
}

}  // namespace
}  // namespace bochner
