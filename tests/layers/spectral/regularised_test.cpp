// The regularised softmax kernel of PERF, whose random rows all have the same length.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "layers/attention/mechanism.h"
#include "layers/spectral/orthogonal.h"

namespace bochner {
namespace {

using Values = std::vector<double>;
constexpr RedrawSchedule kNever{0, false};

double dot(const Values& x, const Values& y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); }

/// The mean and its standard error.
std::pair<double, double> estimate(const Values& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double square = 0;
  for (const double value : values) square += (value - mean) * (value - mean) / (count - 1);
  return {mean, std::sqrt(square / count)};
}

// PERF Theorem 1: rows on the sphere of radius sqrt(d) estimate SMREG. Its ratio to the softmax kernel is, with
// z = q + k, exp(-|z|^2 / 2) E[exp(omega z)]: at most 1 for d >= 2, and at least 1 - 2 d^(-1/3) where the entries of A
// are at most a constant, here e. Rows as long as those of N(0, I) have the ratio 1.
TEST(RegularisedKernel, TheRegularisedKernelIsALowerBoundOfSoftmaxAndNotFarBelow) {
  Generator points(9);
  for (const int64_t dim : {2, 3, 64}) {
    for (int point = 0; point < 4; ++point) {
      // q . k <= |q| |k| <= 1: entries of A up to e.
      const Values q = normal({dim}, points, 0, 1, DType::f64).to_vector<double>();
      const Values k = normal({dim}, points, 0, 1, DType::f64).to_vector<double>();
      const double shrink = (0.4 + 0.2 * point) / std::sqrt(std::max(dot(q, q), dot(k, k)));
      Values z = q;
      for (size_t i = 0; i < z.size(); ++i) z[i] += k[i];
      for (double& value : z) value *= shrink;
      const auto ratios = [&](OrthogonalOptions::Norms norms) {
        Generator init(static_cast<uint64_t>(10 * dim + point));
        constexpr int64_t kRows = 9600;
        OrthogonalFrequencies distribution({}, kRows, dim, {norms}, kNever, init);
        const Tensor u = matmul(distribution.current().values.value().cast(DType::f64), Tensor::from(z, {dim, 1}));
        Values found = u.to_vector<double>();
        for (double& value : found) value = std::exp(value - dot(z, z) / 2);
        Values means;  // of blocks of orthogonal rows, which are independent
        for (size_t i = 0; i < found.size(); i += static_cast<size_t>(dim)) {
          means.push_back(std::accumulate(found.begin() + i, found.begin() + i + dim, 0.0) / static_cast<double>(dim));
        }
        return means;
      };
      const auto [ratio, error] = estimate(ratios(OrthogonalOptions::Norms::sqrt_dim));
      const std::string at = fmt::format("dim {}, point {}, |z|^2 {}", dim, point, dot(z, z));
      EXPECT_LT(ratio, 1 + 4 * error) << at;
      EXPECT_GT(ratio, 1 - 2 / std::cbrt(static_cast<double>(dim)) - 4 * error) << at;
      // E[exp(omega z)] = sum_k (|z|^2 / 2)^k / k! (d/2)^k Gamma(d/2) / Gamma(d/2 + k)
      double term = 1, mean = 1;
      for (int i = 0; i < 60; ++i) {
        term *= dot(z, z) / 2 / (i + 1) * (dim / 2.0) / (dim / 2.0 + i);
        mean += term;
      }
      EXPECT_NEAR(ratio, mean * std::exp(-dot(z, z) / 2), 4.5 * error) << at;
      const auto [one, error_of_one] = estimate(ratios(OrthogonalOptions::Norms::chi));
      EXPECT_NEAR(one, 1, 4.5 * error_of_one) << at;
    }
  }
}

// PERF Eq. 30: SMREG / SM = e^-w sum_k w^k / k! f(k, d), w = |q + k|^2 / 2, f(k, d) = d^k / ((d + 2 k - 2) ... d).
double ratio_of_kernels(double w, int64_t dim) {
  double term = std::exp(-w), total = term;
  for (int k = 0; k < 200; ++k) {
    term *= w / (k + 1) * static_cast<double>(dim) / (static_cast<double>(dim) + 2.0 * k);
    total += term;
  }
  return total;
}

// PERF Theorem 1 over whole attention matrices: with entries of A up to C, no ratio is below 1 - 2 d^(-1/3) nor
// above 1. As f(k, d) >= 1 - k (k - 1) / d, and w <= 2 ln C, none is below 1 - (2 ln C)^2 / d either, which is far
// sharper.
TEST(RegularisedKernel, NoEntryOfAnAttentionMatrixFallsBelowTheTheoremsBound) {
  Generator generator(3);
  constexpr int64_t kTokens = 30;
  for (const int64_t dim : {8, 64, 512}) {
    const Tensor Q = normal({kTokens, dim}, generator, 0, 1, DType::f64);
    const Tensor K = normal({kTokens, dim}, generator, 0, 1, DType::f64);
    const double C = std::exp(1.0);
    double least = 1;
    for (int64_t i = 0; i < kTokens; ++i) {
      for (int64_t j = 0; j < kTokens; ++j) {
        Values q = Q.select(0, i).to_vector<double>();
        Values k = K.select(0, j).to_vector<double>();
        const double shrink = 1 / std::sqrt(std::max(dot(q, q), dot(k, k)));  // |q|, |k| <= 1: A up to e
        for (size_t n = 0; n < q.size(); ++n) q[n] = shrink * (q[n] + (i % 2 == 0 ? k[n] : q[n]));  // q + k, or 2 q
        const double w = dot(q, q) / 2;
        ASSERT_LE(w, 2 * std::log(C) + 1e-12);
        const double ratio = ratio_of_kernels(w, dim);
        least = std::min(least, ratio);
        EXPECT_LE(ratio, 1);
        EXPECT_GE(ratio, 1 - w * w / static_cast<double>(dim));
      }
    }
    EXPECT_GE(least, 1 - 2 / std::cbrt(static_cast<double>(dim)));
    EXPECT_GE(least, 1 - std::pow(2 * std::log(C), 2) / static_cast<double>(dim));
    EXPECT_LT(least, 1 - 0.5 / static_cast<double>(dim));  // the bound has the right order: q = k is among them
  }
}

/// E exp(omega z) over N(0, I) and over the sphere of radius sqrt(d), and E exp((omega_1 + omega_2) z) for two
/// orthogonal ones, by the square of z. On the sphere |omega_1 + omega_2|^2 = 2 d.
struct Means {
  double one, pair;
};
Means gaussian_means(double square, int64_t dim) {
  double term = 1, pair = 1;
  const auto d = static_cast<double>(dim);
  for (int k = 0; k < 80; ++k) {
    term *= square / 2 * (d + k) / ((k + 1) * (d / 2 + k));
    pair += term;
  }
  return {std::exp(square / 2), pair};
}
Means spherical_means(double square, int64_t dim) {
  return {ratio_of_kernels(square / 2, dim) * std::exp(square / 2), ratio_of_kernels(square, dim) * std::exp(square)};
}

// PERF Theorem 2: m orthogonal rows reduce the mean squared error by (1 - 1 / m) (F^2 - E[X_1 X_2]), which it says is
// at least (1 - 1 / m) 2 / (d + 2) F^2, for SM and SMREG. At z = x + y = 0 there is no error to reduce, so as printed
// this cannot hold; the proof compares powers of omega z, and says nothing about the 0th. What it gives is F - F(0) in
// place of F, which holds everywhere.
TEST(RegularisedKernel, OrthogonalRowsGainWhatTheProofOfTheorem2Gives) {
  for (const auto& means : {gaussian_means, spherical_means}) {
    for (const int64_t dim : {2, 3, 16, 128}) {
      const double share = 2 / (static_cast<double>(dim) + 2);
      for (const double square : {1e-4, 0.1, 1.0, 4.0, 9.0}) {
        const auto [F, pair] = means(square, dim);
        EXPECT_GE(F * F - pair, share * (F - 1) * (F - 1) * (1 - 1e-9) - 1e-15) << dim << " " << square;
        EXPECT_LT(pair, F * F) << dim << " " << square;
      }
      const auto [F, pair] = means(0, dim);
      EXPECT_EQ(F * F - pair, 0);  // less than share * F^2
      const auto [near, pairs] = means(1e-4, dim);
      EXPECT_LT(near * near - pairs, share * near * near);
    }
  }
}

// The drawn rows have these means: orthogonal ones those of pairs, independent ones the squares of one.
TEST(RegularisedKernel, RowsOnTheSphereHaveTheMeansOfTheorem2) {
  constexpr int64_t kDim = 4;
  constexpr int64_t kRows = 40'000;
  const Values z = {0.9, -0.5, 0.3, 0.7};
  const auto [F, pair] = spherical_means(dot(z, z), kDim);
  const auto rows = [&](SpectralDistribution& distribution) {
    const Tensor Omega = distribution.current().values.value().cast(DType::f64).view({kRows, kDim});
    Values values = matmul(Omega, Tensor::from(z, {kDim, 1})).to_vector<double>();
    for (double& value : values) value = std::exp(value);
    return values;
  };
  const auto products = [](const Values& values) {  // of the first two of each block of kDim
    Values found;
    for (size_t i = 0; i < values.size(); i += kDim) found.push_back(values[i] * values[i + 1]);
    return found;
  };
  Generator init(8);
  OrthogonalFrequencies orthogonal({}, kRows, kDim, {OrthogonalOptions::Norms::sqrt_dim}, kNever, init);
  SphericalFrequencies independent({}, kRows, kDim, kNever, init);
  const auto expect = [](const Values& values, double truth) {
    const auto [mean, error] = estimate(values);
    EXPECT_NEAR(mean, truth, 4.5 * error);
  };
  expect(rows(independent), F);
  expect(products(rows(independent)), F * F);
  expect(products(rows(orthogonal)), pair);
  EXPECT_GT(F * F - pair, 4.5 * estimate(products(rows(orthogonal))).second);  // the two can be told apart
  const Tensor Omega = independent.current().values.value().cast(DType::f64);
  for (const double square : sum(Omega * Omega, {-1}).to_vector<double>()) EXPECT_NEAR(square, kDim, 1e-5);
}

/// exp(-L_X(a)), the least exp(-theta a) E exp(theta X) over theta > 0, of X = exp(sqrt(d) t), where t is the cosine of
/// a random direction, of density (1 - t^2)^((d - 3) / 2).
double legendre_bound(double a, int64_t dim) {
  constexpr int kAngles = 4000;
  const double pi = std::acos(-1.0);
  std::vector<std::pair<double, double>> points;  // X and its share
  double total = 0;
  for (int i = 0; i < kAngles; ++i) {
    const double angle = pi * (i + 0.5) / kAngles;
    const double share = std::pow(std::sin(angle), static_cast<double>(dim - 2));
    points.emplace_back(std::exp(std::sqrt(static_cast<double>(dim)) * std::cos(angle)), share);
    total += share;
  }
  double least = 1;
  for (double theta = 1e-3; theta < 1e3; theta *= 1.02) {
    double mean = 0;
    for (const auto& [X, share] : points) mean += share / total * std::exp(theta * (X - a));
    least = std::min(least, mean);
  }
  return least;
}

// PERF Theorem 3: P[mean of m rows' X > a] <= exp(-m L_X(a)) for independent rows, and d / (d + 2) times that for
// orthogonal ones. The tails themselves are smaller with d orthogonal rows only far from the mean; near it they are
// larger. The factor exp(-(|x|^2 + |y|^2) / 2), common to both sides, is left out.
TEST(RegularisedKernel, TailsAreWithinTheBoundsOfTheorem3) {
  constexpr int64_t kBlocks = 20'000;
  for (const int64_t dim : {2, 4, 8}) {
    Generator points(static_cast<uint64_t>(dim));
    Values z = normal({dim}, points, 0, 1, DType::f64).to_vector<double>();
    const double shrink = 1 / std::sqrt(dot(z, z));
    for (double& value : z) value *= shrink;  // |x + y| = 1
    const double F = spherical_means(1, dim).one;
    const auto values_of = [&](SpectralDistribution& distribution) {
      const Tensor Omega = distribution.current().values.value().cast(DType::f64).view({kBlocks * dim, dim});
      Values values = matmul(Omega, Tensor::from(z, {dim, 1})).to_vector<double>();
      for (double& value : values) value = std::exp(value);
      return values;
    };
    Generator init(4);
    OrthogonalFrequencies orthogonal({}, kBlocks * dim, dim, {OrthogonalOptions::Norms::sqrt_dim}, kNever, init);
    SphericalFrequencies independent({}, kBlocks * dim, dim, kNever, init);
    const Values of_orthogonal = values_of(orthogonal);
    const Values of_independent = values_of(independent);
    const auto tail = [&](const Values& values, int64_t m, double a) {  // the share of blocks whose m rows are above a
      int64_t above = 0;
      for (int64_t b = 0; b < kBlocks; ++b) {
        const auto first = values.begin() + b * dim;
        above += std::accumulate(first, first + m, 0.0) > a * static_cast<double>(m) ? 1 : 0;
      }
      return static_cast<double>(above) / kBlocks;
    };
    for (const double above : {1.05, 1.2, 1.8, 2.2}) {
      const double a = above * F;
      const double of_one_row = legendre_bound(a, dim);
      for (int64_t m = 1; m <= dim; m *= 2) {
        const double bound = std::pow(of_one_row, static_cast<double>(m));
        const double error = 4.5 * std::sqrt(bound / kBlocks);
        const double less = static_cast<double>(dim) / (static_cast<double>(dim) + 2);
        const std::string at = fmt::format("dim {}, m {}, a {} F, bound {}", dim, m, above, bound);
        EXPECT_LT(bound, 1) << at;
        EXPECT_LE(tail(of_independent, m, a), bound + error) << at;
        EXPECT_LE(tail(of_orthogonal, m, a), less * bound + error) << at;
        if (m == dim) {
          EXPECT_EQ(tail(of_orthogonal, m, a) < tail(of_independent, m, a), above > 1.5) << at;
        }
      }
    }
  }
}

// Also if Hadamard rows are cut to a head's size, and if there is no plane to rotate in.
TEST(RegularisedKernel, RowsOfEveryCouplingHaveTheirLengthAndNoDirection) {
  using Matrix = OrthogonalOptions::Matrix;
  for (const Matrix matrix : {Matrix::haar, Matrix::hadamard, Matrix::givens}) {
    for (const int64_t dim : {1, 3, 8, 20}) {
      SCOPED_TRACE(fmt::format("coupling {}, D = {}", static_cast<int>(matrix), dim));
      Generator generator(9);
      OrthogonalFrequencies frequencies({}, 2000, dim, {OrthogonalOptions::Norms::sqrt_dim, matrix}, {}, generator);
      const NoTape constant;
      const Tensor rows = frequencies.current(false).values.value().cast(DType::f64).select(0, 0);
      for (const double length : sum(rows * rows, {-1}).to_vector<double>()) {
        EXPECT_NEAR(length, static_cast<double>(dim), 1e-4);
      }
      for (const double total : sum(rows, {0}).to_vector<double>()) EXPECT_NEAR(total / 2000, 0, 0.3);
    }
  }
}

TEST(RegularisedKernel, PerformerTakesIndependentRows) {
  constexpr int64_t kDim = 8;
  for (const bool independent : {true, false}) {
    const MechanismOptions options("performer-reg",
                                   {{"features", kDim}, {"coupling", independent ? "independent" : "orthogonal"}});
    Generator init(8);
    const auto mechanism = make_mechanism({}, 2, kDim, options, init);
    const Tensor Omega = mechanism->frequencies().cast(DType::f64).view({kDim, kDim});
    const Values products = matmul(Omega, Omega.transpose(0, 1)).to_vector<double>();
    double largest = 0;  // off the diagonal
    for (int64_t i = 0; i < kDim * kDim; ++i) {
      const double product = products[static_cast<size_t>(i)];
      if (i % (kDim + 1) == 0) {
        EXPECT_NEAR(product, kDim, 1e-4);
      } else {
        largest = std::max(largest, std::abs(product));
      }
    }
    EXPECT_EQ(largest > 0.1, independent) << largest;
  }
}

}  // namespace
}  // namespace bochner
