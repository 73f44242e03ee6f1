// The regularised softmax kernel of PERF, whose random rows all have the same length.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/ops/matmul.h"
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

}  // namespace
}  // namespace bochner
