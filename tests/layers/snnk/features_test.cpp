// Feature maps against what they stand for: Monte-Carlo within 4 deviations, closed forms, gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "autograd/gradcheck.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/snnk/arc_cosine.h"
#include "layers/snnk/polynomial.h"
#include "layers/snnk/released.h"
#include "layers/snnk/snnk.h"
#include "layers/snnk/universal.h"

namespace bochner {
namespace {

using Make = std::function<std::unique_ptr<FeatureMap>(Generator&)>;

Tensor vector_of(int64_t dim, double norm, uint64_t seed) {
  Generator generator(seed);
  const Tensor v = normal({1, dim}, generator);
  return v * (norm / std::sqrt(sum(square(v)).item()));
}

double dot(const Tensor& a, const Tensor& b) { return sum(a.cast(DType::f64) * b.cast(DType::f64)).item(); }

struct Estimate {
  double mean, error, variance;
};

/// Mean of Phi(x).Psi(w, b) over independent maps, the deviation of that mean, and the variance of one.
Estimate estimate(const Make& make, const Tensor& x, const Tensor& w, double b, int64_t maps = 400) {
  double total = 0;
  double squares = 0;
  for (int64_t i = 0; i < maps; ++i) {
    Generator generator(static_cast<uint64_t>(1000 + i));
    const auto map = make(generator);
    const Tensor phi = map->forward(x).value();
    const double value = dot(phi, map->weights(w, Tensor::from<float>({static_cast<float>(b)}, {1})));
    total += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(maps);
  const double variance = (squares - total * total / n) / (n - 1);
  return {total / n, std::sqrt(variance / n), variance};
}

Make universal(const UniversalOptions& options, int64_t dim) {
  return [=](Generator& generator) { return std::make_unique<UniversalFeatures>(Slot{}, dim, options, generator); };
}

TEST(FourierMeasure, GivesItsFunction) {
  for (const double z : {-3.1, -0.4, 0.0, 0.7, 2.5}) {
    EXPECT_NEAR(FourierMeasure::sine()(z), std::sin(z), 1e-12);
    EXPECT_NEAR(FourierMeasure::cosine(2)(z), std::cos(2 * z), 1e-12);
    EXPECT_NEAR(FourierMeasure::gaussian()(z), std::exp(-z * z / 2), 1e-9);
    const double pi_z = std::numbers::pi * z;
    EXPECT_NEAR(FourierMeasure::sinc()(z), z == 0 ? 1 : std::sin(pi_z) / pi_z, 1e-9);
    // ReLU convolved with N(0, s^2): z Phi(z / s) + s phi(z / s), where the truncation is far
    const double s = 0.25;
    const double smooth = z / 2 * std::erfc(-z / s / std::numbers::sqrt2) +
                          s * std::exp(-z * z / (2 * s * s)) / std::sqrt(2 * std::numbers::pi);
    EXPECT_NEAR(FourierMeasure::relu(6, s)(z), smooth, 1e-6) << z;
  }
  EXPECT_NEAR(FourierMeasure::relu(3, 0.1)(7), 0, 1e-6);  // truncated
}

TEST(FourierMeasure, RefusesWhatHasNone) {
  try {
    FourierMeasure::of("tanh");
    FAIL();
  } catch (const Error& error) {
    const std::string what = error.what();
    for (const char* part : {"'tanh' has no Fourier measure", "arc-cosine", "polynomial", "density"}) {
      EXPECT_NE(what.find(part), std::string::npos) << what;
    }
  }
  EXPECT_THROW(FourierMeasure::density(
                   "step", [](double xi) { return std::complex<double>(0, 1 / xi); }, 1),
               Error);
  EXPECT_THROW(FourierMeasure::relu(4, 0), Error);
  EXPECT_THROW(FourierMeasure::atoms("none", {}), Error);
}

struct Case {
  FourierMeasure measure;
  double x_norm;
  double A;
  int64_t block = 1;
  bool orthogonal = false;
};

TEST(UniversalFeatures, AreUnbiased) {
  constexpr int64_t kDim = 6;
  const std::vector<Case> cases = {
      {FourierMeasure::sine(), 1.0, 0},
      {FourierMeasure::sine(), 1.3, -0.05},
      {FourierMeasure::cosine(), 1.0, -0.05, 1, true},
      {FourierMeasure::atoms("two", {{0.1, {1, 0.5}}, {0.3, {-0.5, 1}}}), 0.7, -0.02},
      {FourierMeasure::gaussian(), 0.4, -0.02},
      {FourierMeasure::gaussian(), 0.4, -0.02, 4},
      {FourierMeasure::sinc(), 0.5, -0.02},
      {FourierMeasure::relu(3, 0.4), 0.25, -0.02},
      {FourierMeasure::density(
           "triangle", [](double xi) { return std::complex<double>(1 - xi, xi * (1 - xi)); }, 1),
       0.2, -0.02},
  };
  for (const Case& c : cases) {
    const Tensor x = vector_of(kDim, c.x_norm, 1);
    const Tensor w = vector_of(kDim, 0.9, 2);
    for (const double b : {0.0, 0.5}) {
      UniversalOptions options{.measure = c.measure, .features = 64, .A = c.A};
      options.block = c.block;
      options.orthogonal = c.orthogonal;
      const Estimate e = estimate(universal(options, kDim), x, w, b);
      EXPECT_NEAR(e.mean, c.measure(dot(x, w) + b), 4 * e.error) << c.measure.name() << " A " << c.A << " b " << b;
      EXPECT_LT(e.error, 0.3 * std::max(0.2, c.measure.mass())) << c.measure.name();
      EXPECT_GT(e.error, 0);
    }
  }
}

TEST(UniversalFeatures, VarianceIsItsFormulaAndFallsAsOneOverM) {
  constexpr int64_t kDim = 6;
  const Tensor x = vector_of(kDim, 0.8, 3);
  const Tensor w = vector_of(kDim, 1.1, 4);
  for (const double A : {0.0, -0.05}) {
    double first = 0;
    for (const int64_t features : {8, 128}) {
      const UniversalOptions options{.measure = FourierMeasure::sine(), .features = features, .A = A, .eta = 0.9};
      Generator generator(1);
      const UniversalFeatures map({}, kDim, options, generator);
      const double expected = map.variance(dot(x, x), dot(w, w), dot(x, w), 0.3);
      const Estimate e = estimate(universal(options, kDim), x, w, 0.3, 3000);
      EXPECT_NEAR(e.variance / expected, 1, 0.25) << "A " << A << " features " << features;
      if (features == 8) first = expected;
      if (features == 128) {
        EXPECT_NEAR(first / expected, 16, 1e-6);
      }
    }
  }
}

TEST(UniversalFeatures, OptimalAMinimisesTheVariance) {
  constexpr int64_t kDim = 4;
  const Tensor x = vector_of(kDim, 1.0, 5);
  const Tensor w = vector_of(kDim, 2.0, 6);
  // The second moment of the formula, in v = 1 - 8A
  const auto moment = [&](double A) {
    const double v = 1 - 8 * A;
    return kDim / 2.0 * std::log((1 + v) * (1 + v) / (4 * v)) + dot(w, w) / v;
  };
  const double best = optimal_A(dot(w, w), kDim);
  EXPECT_LT(best, 0);
  EXPECT_LT(moment(best), moment(best * 1.05));
  EXPECT_LT(moment(best), moment(best * 0.95));
  EXPECT_EQ(optimal_A(0, kDim), 0);
  const auto variance = [&](double A) {
    Generator generator(1);
    return UniversalFeatures({}, kDim, {.measure = FourierMeasure::sine(), .A = A}, generator)
        .variance(dot(x, x), dot(w, w), dot(x, w), 0);
  };
  EXPECT_LT(variance(best), 0.5 * variance(0));  // worth it where |w|^2 = d
}

TEST(UniversalFeatures, AreBoundedForNegativeAOnly) {
  // Remark 3.1: for |x|, |w| <= 1 entries are at most max over |g| of exp(l + ...), finite for A < 0.
  constexpr int64_t kDim = 3;
  const double A = -0.1;
  const double s = std::sqrt(1 - 4 * A);
  constexpr int64_t kFeatures = 4000;
  Generator generator(9);
  const UniversalFeatures map({}, kDim, {.measure = FourierMeasure::cosine(), .features = kFeatures, .A = A},
                              generator);
  const Tensor x = vector_of(kDim, 1, 7);
  const Tensor w = vector_of(kDim, 1, 8);
  const double unit = std::pow(1 - 4 * A, kDim / 4.0) / std::sqrt(kFeatures / 2.0);
  const double phi_bound = unit * std::exp(0.5);                     // cos, sin <= 1, A |g|^2 <= 0
  const double psi_bound = unit * std::exp(s * s / (4 * -A) - 0.5);  // max of A r^2 + s r - 1/2
  EXPECT_LE(amax(abs(map.forward(x).value())).item(), phi_bound * 1.0001);
  EXPECT_LE(amax(abs(map.weights(w, {}))).item(), psi_bound * 1.0001);
}

TEST(UniversalFeatures, StayFiniteInManyDimensions) {
  // (1 - 4A)^(d/4) = 10^134 on both sides at d = 768, A = -1: only their logarithms fit.
  Generator generator(2);
  const UniversalFeatures map({}, 768, {.measure = FourierMeasure::sine(), .features = 64, .A = -1}, generator);
  for (const Tensor& side : {map.forward(vector_of(768, 1, 1)).value(), map.weights(vector_of(768, 1, 2), {})}) {
    EXPECT_TRUE(std::isfinite(sum(abs(side)).item()));
  }
  const Estimate e = estimate(universal({.measure = FourierMeasure::sine(), .features = 256}, 768),
                              vector_of(768, 1, 1), vector_of(768, 1, 2), 0.5, 200);
  EXPECT_NEAR(e.mean, std::sin(dot(vector_of(768, 1, 1), vector_of(768, 1, 2)) + 0.5), 4 * e.error);
}

TEST(UniversalFeatures, RefuseWhatCanNotBe) {
  Generator generator(1);
  EXPECT_THROW(UniversalFeatures({}, 4, {.features = 7}, generator), Error);
  EXPECT_THROW(UniversalFeatures({}, 4, {.A = 0.1}, generator), Error);
  EXPECT_THROW(UniversalFeatures({}, 4, {.eta = 0}, generator), Error);
}

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
  const Estimate e = estimate(
      [&](Generator& g) {
        return std::make_unique<PolynomialFeatures>(Slot{}, kDim, PolynomialOptions{.features = 100}, g);
      },
      x, w, 0.2, 2000);
  EXPECT_NEAR(e.mean, std::tanh(dot(x, w) + 0.2), 4 * e.error + 1e-4);  // the series is cut at z^11
  EXPECT_LT(e.error, 0.05);
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
    EXPECT_GT(std::abs(e.mean - std::sin(dot(x, w))), 20 * e.error);  // no sine
  }
}

class EveryFeatureMap : public testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<FeatureMap> make(int64_t inputs, bool damped = false) {
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

TEST_P(EveryFeatureMap, GradientsAgreeWithDifferences) {
  for (const bool damped : {false, true}) {
    const auto map = make(4, damped);
    const auto f = [&](const std::vector<Variable>& in) { return map->forward(in[0]); };
    EXPECT_EQ(gradcheck(f, {values({2, 3, 4}, 1)}, {.tolerance = 1e-6}), "");
  }
}

TEST_P(EveryFeatureMap, JacobianIsThatOfBackward) {
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

TEST_P(EveryFeatureMap, TakesAnAffineMapIn) {
  const auto map = make(4);
  for (const int64_t inputs : {3, 4, 9}) {
    const Tensor W = values({4, inputs}, 4);
    const Tensor b = values({4}, 5);
    const Tensor x = values({6, inputs}, 6);
    const auto composed = map->after({}, W, b);
    const Tensor expected = map->forward(matmul(x, W.transpose(0, 1)) + b).value();
    const double size = std::max(1.0, amax(abs(expected)).item());
    EXPECT_LT(amax(abs(composed->forward(x).value() - expected)).item(), 1e-10 * size) << GetParam();
    // once more, in front of a composed one
    const Tensor V = values({inputs, 2}, 9);
    const Tensor z = values({5, 2}, 10);
    const auto twice = composed->after({}, V, {});
    const Tensor there = map->forward(matmul(matmul(z, V.transpose(0, 1)), W.transpose(0, 1)) + b).value();
    const double there_size = std::max(1.0, amax(abs(there)).item());
    EXPECT_LT(amax(abs(twice->forward(z).value() - there)).item(), 1e-9 * there_size) << GetParam();
    EXPECT_THROW(composed->weights(values({2, inputs}, 1), {}), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Names, EveryFeatureMap, testing::ValuesIn(snnk_activations()), [](const auto& one) {
  std::string name = one.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace bochner
