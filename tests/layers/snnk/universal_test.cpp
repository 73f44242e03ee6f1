// Fourier measures and universal random features compared with what they stand for: Monte-Carlo within 4 deviations,
// closed forms.
#include "layers/snnk/universal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "engine/ops/unary.h"
#include "tests/layers/snnk/estimate.h"

namespace bochner {
namespace {

using test::dot;
using test::Estimate;
using test::estimate;
using test::Make;
using test::vector_of;

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
  EXPECT_THROW(FourierMeasure::density(
                   "step", [](double xi) { return std::complex<double>(0, 1 / xi); }, 1),
               Error);
  EXPECT_THROW(FourierMeasure::relu(4, 0), Error);
  EXPECT_THROW(FourierMeasure::atoms("none", {}), Error);
}

struct Setting {
  FourierMeasure measure;
  double x_norm;
  double A;
  int64_t block = 1;
  bool orthogonal = false;
  double eta = 1;
  double scale = 1;
  bool damped = false;
};

TEST(UniversalFeatures, AreUnbiased) {
  constexpr int64_t kDim = 6;
  const std::vector<Setting> cases = {
      {FourierMeasure::sine(), 1.0, 0},
      {FourierMeasure::sine(), 1.3, -0.05},
      {FourierMeasure::sine(), 1.3, -0.05, 1, false, 1.4, 0.7},
      {FourierMeasure::cosine(2), 1.3, -0.05, 1, false, 0.8, 0.6, true},
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
  for (const Setting& c : cases) {
    const Tensor x = vector_of(kDim, c.x_norm, 1);
    const Tensor w = vector_of(kDim, 0.9, 2);
    for (const double b : {0.0, 0.5}) {
      UniversalOptions options{.measure = c.measure, .features = 64, .A = c.A};
      options.block = c.block;
      options.orthogonal = c.orthogonal;
      options.eta = c.eta;
      options.scale = c.scale;
      options.damped = c.damped;
      const Estimate e = estimate(universal(options, kDim), x, w, b);
      double expected = c.measure(c.scale * c.scale * dot(x, w) + b);
      if (c.damped) {  // of one frequency
        const double t = 2 * std::numbers::pi * c.measure.atoms()[0].frequency / c.eta;
        expected *= std::exp(-t * t * c.scale * c.scale * dot(x, x) / 2);
      }
      EXPECT_NEAR(e.mean, expected, 4 * e.error) << c.measure.name() << " A " << c.A << " b " << b;
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
  EXPECT_LT(variance(best), 0.5 * variance(0));  // worth it if |w|^2 = d
}

TEST(UniversalFeatures, TheEtaOfItsCommentHasTheLeastVariance) {
  constexpr int64_t kDim = 4;
  const Tensor x = vector_of(kDim, 0.7, 5);
  const Tensor w = vector_of(kDim, 2.0, 6);
  for (const double A : {0.0, -0.2}) {
    const auto log_moment = [&](double eta) {  // the part of E |product|^2 that depends on eta
      return dot(x, x) / (eta * eta) + eta * eta * dot(w, w) / (1 - 8 * A);
    };
    const double best = std::sqrt(0.7 * std::sqrt(1 - 8 * A) / 2.0);  // for the sine, 2 pi xi = 1
    EXPECT_LT(log_moment(best), log_moment(best * 1.05));
    EXPECT_LT(log_moment(best), log_moment(best * 0.95));
    const auto variance = [&](double eta) {
      Generator generator(1);
      const UniversalOptions options{.measure = FourierMeasure::sine(), .A = A, .eta = eta};
      return UniversalFeatures({}, kDim, options, generator).variance(dot(x, x), dot(w, w), dot(x, w), 0);
    };
    EXPECT_LT(variance(best), 0.8 * variance(1));
  }
  EXPECT_THROW(optimal_A(-1, 3), Error);
}

TEST(FourierMeasure, ABlockSharesItsFrequency) {
  Generator generator(4);
  const auto drawn = FourierMeasure::gaussian().draw(10, 4, generator);
  ASSERT_EQ(drawn.size(), 10U);
  for (size_t j = 1; j < drawn.size(); ++j) {
    EXPECT_EQ(drawn[j].frequency == drawn[j - 1].frequency, j % 4 != 0) << j;
    EXPECT_EQ(drawn[j].weight == drawn[j - 1].weight, j % 4 != 0) << j;
  }
  // Atoms are distributed evenly, weighted so that their sum is the measure's own.
  const auto two = FourierMeasure::atoms("two", {{0.1, {1, 0}}, {0.3, {0, 2}}}).draw(5, 1, generator);
  std::complex<double> first;
  std::complex<double> second;
  for (const auto& atom : two) (atom.frequency == 0.1 ? first : second) += atom.weight / 5.0;
  EXPECT_NEAR(std::abs(first - 1.0), 0, 1e-15);
  EXPECT_NEAR(std::abs(second - std::complex<double>(0, 2)), 0, 1e-15);
  EXPECT_THROW(FourierMeasure::atoms("two", {{0.1, 1}, {0.3, 2}}).draw(1, 1, generator), Error);
  EXPECT_THROW(FourierMeasure::gaussian().draw(4, 0, generator), Error);
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
  // With A = 0 the same draws exceed what no draw can exceed at A = -1: exp(3 / 4) (1 + 4)^(d / 4)
  const auto largest = [&](double a) {
    Generator same(9);
    const UniversalFeatures one({}, kDim, {.measure = FourierMeasure::cosine(), .features = kFeatures, .A = a}, same);
    return amax(abs(one.weights(w, {}))).item() * std::sqrt(kFeatures / 2.0);
  };
  const double bound = std::exp(0.75) * std::pow(5, kDim / 4.0);
  EXPECT_LE(largest(-1), bound * 1.0001);
  EXPECT_GT(largest(0), bound);
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

}  // namespace
}  // namespace bochner
