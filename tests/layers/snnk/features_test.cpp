// Feature maps compared with what they stand for: Monte-Carlo within 4 deviations, closed forms, gradients. Universal
// random features have their own file.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "autograd/gradcheck.h"
#include "engine/ops/matmul.h"
#include "engine/ops/unary.h"
#include "layers/snnk/arc_cosine.h"
#include "layers/snnk/polynomial.h"
#include "layers/snnk/released.h"
#include "layers/snnk/snnk.h"
#include "tests/layers/snnk/estimate.h"

namespace bochner {
namespace {

using test::dot;
using test::Estimate;
using test::estimate;
using test::vector_of;

TEST(ArcCosine, KernelIsItsClosedFormAndItsFeaturesAgree) {
  const double a = 1.1;
  const double c = std::cos(a);
  const double s = std::sin(a);
  const double rest = std::numbers::pi - a;
  EXPECT_NEAR(arc_cosine_kernel(0, 2, 3, a), rest / std::numbers::pi, 1e-12);
  EXPECT_NEAR(arc_cosine_kernel(1, 2, 3, a), 6 * (s + rest * c) / std::numbers::pi, 1e-12);
  EXPECT_NEAR(arc_cosine_kernel(2, 2, 3, a), 36 * (3 * s * c + rest * (1 + 2 * c * c)) / std::numbers::pi, 1e-12);
  EXPECT_NEAR(arc_cosine_kernel(3, 1, 1, 0), 15, 1e-12);  // 2 E max(g, 0)^6
  constexpr int64_t kDim = 5;
  const Tensor x = vector_of(kDim, 1.2, 11);
  const Tensor w = vector_of(kDim, 0.7, 12);
  const double angle = std::acos(dot(x, w) / (1.2 * 0.7));
  for (const bool orthogonal : {false, true}) {
    for (int order = 0; order <= 3; ++order) {
      const ArcCosineOptions options{.features = 200, .order = order, .orthogonal = orthogonal};
      const Estimate e = estimate(
          [&](Generator& g) { return std::make_unique<ArcCosineFeatures>(Slot{}, kDim, options, g); }, x, w, 0);
      EXPECT_NEAR(e.mean, arc_cosine_kernel(order, 1.2, 0.7, angle) / 2, 4 * e.error) << order << orthogonal;
    }
  }
}

TEST(ArcCosine, ABiasIsACoordinateMore) {
  constexpr int64_t kDim = 3;
  constexpr double kBias = -0.8;
  const Tensor x = vector_of(kDim, 1.2, 13);
  const Tensor w = vector_of(kDim, 0.7, 14);
  const Estimate e = estimate(
      [&](Generator& g) {
        return std::make_unique<ArcCosineFeatures>(Slot{}, kDim, ArcCosineOptions{.features = 200, .bias = true}, g);
      },
      x, w, kBias);
  const double x_norm = std::hypot(1.2, 1);  // of (x, 1)
  const double w_norm = std::hypot(0.7, kBias);
  const double angle = std::acos((dot(x, w) + kBias) / (x_norm * w_norm));
  EXPECT_NEAR(e.mean, arc_cosine_kernel(1, x_norm, w_norm, angle) / 2, 4 * e.error);
  EXPECT_GT(std::abs(e.mean - arc_cosine_kernel(1, 1.2, 0.7, std::acos(dot(x, w) / 0.84)) / 2), 10 * e.error);
}

TEST(ArcCosine, AFloorTakesThePlaceOfZero) {
  Generator generator(15);
  const ArcCosineOptions options{.features = 50, .scale = 0.5, .floor = -0.3};
  ArcCosineFeatures map({}, 4, options, generator);
  const Tensor G = map.state().at("projection");
  const Tensor x = vector_of(4, 2, 16);
  const std::vector<double> u = matmul(x, G.transpose(0, 1)).to_vector<double>();
  const std::vector<double> phi = map.forward(x).value().to_vector<double>();
  const std::vector<double> J = map.jacobian(x).to_vector<double>();
  int below = 0;
  for (size_t j = 0; j < 50; ++j) {
    EXPECT_NEAR(phi[j], std::max(u[j], -0.3) / std::sqrt(50), 1e-6);
    EXPECT_NEAR(J[4 * j], u[j] > -0.3 ? G.to_vector<double>()[4 * j] / std::sqrt(50) : 0, 1e-6);
    below += u[j] < -0.3 ? 1 : 0;
  }
  EXPECT_GT(below, 5);
  EXPECT_LT(below, 45);
  EXPECT_THROW(ArcCosineFeatures({}, 4, {.order = 2, .floor = -5}, generator), Error);
  EXPECT_THROW(ArcCosineFeatures({}, 4, {.order = 9}, generator), Error);
}

TEST(PolynomialFeatures, EstimateTheSeries) {
  const std::vector<double> a = tanh_coefficients(8);
  EXPECT_EQ(a[0], 0);
  EXPECT_EQ(a[1], 1);
  EXPECT_NEAR(a[3], -1.0 / 3, 1e-15);
  EXPECT_NEAR(a[5], 2.0 / 15, 1e-15);
  EXPECT_NEAR(a[7], -17.0 / 315, 1e-15);
  constexpr int64_t kDim = 4;
  const Tensor x = vector_of(kDim, 0.6, 21);
  const Tensor w = vector_of(kDim, 0.6, 22);
  for (const int64_t features : {2, 7, 100}) {
    const Estimate e = estimate(
        [&](Generator& g) {
          return std::make_unique<PolynomialFeatures>(Slot{}, kDim, PolynomialOptions{.features = features}, g);
        },
        x, w, 0.2, 2000);
    const double z = dot(x, w) + 0.2;
    const double series = features == 2 ? z - z * z * z / 3 : std::tanh(z);  // cut at z^11
    EXPECT_NEAR(e.mean, series, 4 * e.error + 1e-4) << features;
    EXPECT_LT(e.error, 0.1 / std::sqrt(features)) << features;
  }
}

TEST(PolynomialFeatures, SharesOutTheDegreesOfEachSeedAlike) {
  const auto state = [](int64_t features, uint64_t seed) {
    Generator generator(seed);
    return PolynomialFeatures({}, 3, {.coefficients = tanh_coefficients(8), .features = features}, generator).state();
  };
  const auto counts = [&](int64_t features) { return state(features, 1).at("counts").to_vector<int64_t>(); };
  EXPECT_EQ(counts(1), (std::vector<int64_t>{0, 1, 0, 0, 0, 0, 0, 0}));  // low degrees first
  EXPECT_EQ(counts(3), (std::vector<int64_t>{0, 1, 0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(counts(4), (std::vector<int64_t>{0, 1, 0, 1, 0, 1, 0, 1}));
  const std::vector<int64_t> many = counts(85000);  // P(n) is 64, 16, 4 and 1 of 85
  for (const auto& [n, expected] : {std::pair<size_t, int64_t>{1, 64000}, {3, 16000}, {5, 4000}, {7, 1000}}) {
    EXPECT_NEAR(static_cast<double>(many[n]), static_cast<double>(expected), 4) << n;
  }
  for (const int64_t features : {1, 3, 32, 100}) {
    const auto first = state(features, 1);
    const auto second = state(features, 2);
    for (const auto& [name, tensor] : first) EXPECT_EQ(tensor.shape(), second.at(name).shape()) << name;
    EXPECT_EQ(first.at("scales").size(), features);
  }
}

TEST(ReleasedFeatures, AreExponentials) {
  constexpr int64_t kDim = 4;
  const Tensor x = vector_of(kDim, 1, 31);
  const Tensor w = vector_of(kDim, 1, 32);
  for (const auto map : {ReleasedOptions::Map::sine, ReleasedOptions::Map::cosine}) {
    const double xi = 1 / (2 * std::numbers::pi);
    const double a = map == ReleasedOptions::Map::sine ? std::sin(xi) : std::cos(xi);
    const Estimate e = estimate(
        [&](Generator& g) {
          return std::make_unique<ReleasedFeatures>(Slot{}, kDim, ReleasedOptions{.map = map, .features = 100}, g);
        },
        x, w, 0);
    EXPECT_NEAR(e.mean, a * a * std::exp(a * a * dot(x, w)), 4 * e.error);
    EXPECT_GT(std::abs(e.mean - std::sin(dot(x, w))), 20 * e.error);  // not a sine
  }
}

class EverySnnkFeature : public testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<TwoTowerFeatures> make(int64_t inputs, bool damped = false) {
    Generator generator(5);
    SnnkOptions options{.activation = GetParam(), .features = 10};
    options.eta = 1.5;
    options.damped = damped;
    options.bias_coordinate = true;
    auto map = make_features({}, inputs, options, Tensor::full({2, inputs}, 0.5), generator);
    map->to(Device::cpu(), DType::f64);
    return map;
  }
  static Tensor values(const Shape& shape, uint64_t seed) {
    Generator generator(seed);
    return normal(shape, generator, 0, 0.5, DType::f64);
  }
};

TEST_P(EverySnnkFeature, GradientsAgreeWithDifferences) {
  for (const bool damped : {false, true}) {
    const auto map = make(4, damped);
    const auto f = [&](const std::vector<Variable>& in) { return map->forward(in[0]); };
    EXPECT_EQ(gradcheck(f, {values({2, 3, 4}, 1)}, {.tolerance = 1e-6}), "");
  }
}

TEST_P(EverySnnkFeature, JacobianIsThatOfBackward) {
  for (const bool composed : {false, true}) {
    const auto first = make(4);
    const auto map = composed ? first->after({}, values({4, 3}, 7), values({4}, 8)) : first->after({}, {}, {});
    map->to(Device::cpu(), DType::f64);
    const Tensor x = values({2, map->inputs()}, 3);
    const Tensor J = map->jacobian(x);
    ASSERT_EQ(J.shape(), (Shape{2, map->features(), map->inputs()}));
    for (int64_t j = 0; j < map->features(); ++j) {
      Tape tape;
      const Variable leaf = tape.watch(x);
      const Tensor pick = Tensor::zeros({2, map->features()}, DType::f64);
      pick.slice(1, j, j + 1).fill_(1);
      const Tensor g = tape.gradients({map->forward(leaf)}, {pick}, {leaf})[0].value();
      EXPECT_LT(amax(abs(g - J.select(1, j))).item(), 1e-9) << GetParam() << j;
    }
  }
}

TEST_P(EverySnnkFeature, TakesAnAffineMapIn) {
  const auto map = make(4);
  for (const int64_t inputs : {3, 4, 9}) {
    const Tensor W = values({4, inputs}, 4);
    const Tensor b = values({4}, 5);
    const Tensor x = values({6, inputs}, 6);
    const auto composed = map->after({}, W, b);
    const Tensor expected = map->forward(matmul(x, W.transpose(0, 1)) + b).value();
    const double size = std::max(1.0, amax(abs(expected)).item());
    EXPECT_LT(amax(abs(composed->forward(x).value() - expected)).item(), 1e-10 * size) << GetParam();
    // once more, in front of a composed layer
    const Tensor V = values({inputs, 2}, 9);
    const Tensor z = values({5, 2}, 10);
    const auto twice = composed->after({}, V, {});
    const Tensor there = map->forward(matmul(matmul(z, V.transpose(0, 1)), W.transpose(0, 1)) + b).value();
    const double there_size = std::max(1.0, amax(abs(there)).item());
    EXPECT_LT(amax(abs(twice->forward(z).value() - there)).item(), 1e-9 * there_size) << GetParam();
    EXPECT_THROW(composed->weights(values({2, inputs}, 1), {}), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Names, EverySnnkFeature, testing::ValuesIn(snnk_activations()), [](const auto& one) {
  std::string name = one.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace bochner
