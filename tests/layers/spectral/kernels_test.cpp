// Bochner's theorem by Monte Carlo: what each distribution of frequencies times each feature map estimates, and with
// what error, compared with the closed forms of the papers. Bounds are four standard errors of the estimates.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "autograd/fused/kernel_attention.h"
#include "autograd/ops/binary.h"
#include "engine/ops/linalg.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "layers/spectral/fastfood.h"
#include "layers/spectral/mixture.h"
#include "layers/spectral/orthogonal.h"

namespace bochner {
namespace {

using Kind = FeatureMap::Kind;
using Values = std::vector<double>;

constexpr int64_t kDim = 4;
constexpr int64_t kDraws = 100'000;
constexpr RedrawSchedule kNever{0, false};

const Values kQuery = {0.3, -0.5, 0.2, 0.4};
const Values kKey = {-0.1, 0.4, 0.6, -0.2};

double dot(const Values& x, const Values& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

Values plus(const Values& x, const Values& y, double factor = 1) {
  Values sum = x;
  for (size_t i = 0; i < x.size(); ++i) sum[i] += factor * y[i];
  return sum;
}

double gaussian(const Values& q, const Values& k) {
  const Values p = plus(q, k, -1);
  return std::exp(-dot(p, p) / 2);
}

/// Omega (heads, M, dim) in f64.
Tensor omega(SpectralDistribution& distribution) {
  Generator unused(0);
  Context context{unused};
  return distribution.frequencies(context).values.value().cast(DType::f64);
}

FeatureMap map_of(Kind kind, double norm_factor = 0.5) {
  FeatureMap map;
  map.kind = kind;
  map.norm_factor = norm_factor;
  map.eps = 0;
  return map;
}

/// phi(q)_m . phi(k)_m for each of the M rows of Omega (1, M, dim): M estimates of the kernel.
Values estimates(const FeatureMap& map, const Values& q, const Values& k, const Tensor& Omega) {
  const auto features = [&](const Values& x) {
    const Tensor row = Tensor::from(x, {1, 1, 1, static_cast<int64_t>(x.size())});
    return composed::feature_map(map, row, Omega, false, {}, false).value();
  };
  const Tensor products = features(q) * features(k);
  const int64_t count = Omega.size(-2);
  return sum(products.reshape({products.size() / count, count}), {0}).to_vector<double>();
}

/// Means of consecutive groups of `size` values: for rows that depend on each other.
Values grouped(const Values& values, size_t size) {
  Values means;
  for (size_t i = 0; i + size <= values.size(); i += size) {
    double sum = 0;
    for (size_t j = 0; j < size; ++j) sum += values[i + j];
    means.push_back(sum / static_cast<double>(size));
  }
  return means;
}

/// Means of values that are `values.size() / parts` apart: for components that share their noise.
Values interleaved(const Values& values, size_t parts) {
  const size_t count = values.size() / parts;
  Values means(count, 0);
  for (size_t i = 0; i < values.size(); ++i) means[i % count] += values[i] / static_cast<double>(parts);
  return means;
}

struct Estimate {
  double mean, error;  ///< and its standard error
};

Estimate estimate(const Values& values) {
  double mean = 0, square = 0;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) mean += value / count;
  for (const double value : values) square += (value - mean) * (value - mean) / (count - 1);
  return {mean, std::sqrt(square / count)};
}

void expect_mean(const Values& values, double expected, const char* what = "") {
  const auto [mean, error] = estimate(values);
  EXPECT_NEAR(mean, expected, 4 * error) << what;
  EXPECT_LT(error, 0.05 * std::abs(expected)) << what << ": too few draws to say anything";
}

/// Squared errors of the estimates.
Values squared_errors(Values values, double truth) {
  for (double& value : values) value = (value - truth) * (value - truth);
  return values;
}

Tensor gaussian_omega(uint64_t seed, int64_t draws = kDraws) {
  Generator init(seed);
  GaussianFrequencies distribution({}, draws, kDim, kNever, init);
  return omega(distribution);
}

TEST(Kernels, EachFeatureMapOfGaussianFrequenciesEstimatesItsKernel) {
  const Tensor Omega = gaussian_omega(1);
  const double softmax = std::exp(dot(kQuery, kKey));
  expect_mean(estimates(map_of(Kind::trigonometric), kQuery, kKey, Omega), gaussian(kQuery, kKey), "RKS");
  expect_mean(estimates(map_of(Kind::positive, 1), kQuery, kKey, Omega), gaussian(kQuery, kKey), "PRF of KL");
  expect_mean(estimates(map_of(Kind::positive), kQuery, kKey, Omega), softmax, "PRF of PERF");
  expect_mean(estimates(map_of(Kind::hyperbolic), kQuery, kKey, Omega), 2 * softmax, "two features a draw");
  expect_mean(estimates(map_of(Kind::softmax_trigonometric), kQuery, kKey, Omega), softmax, "PERF Eq. 5");
}

// PERF Lemma 2 with z = q + k, D = q - k and one draw.
TEST(Kernels, ErrorsAreThoseOfPerformersLemma2) {
  const Tensor Omega = gaussian_omega(2);
  const Values z = plus(kQuery, kKey), delta = plus(kQuery, kKey, -1);
  const double sm = std::exp(dot(kQuery, kKey));
  const double zz = std::exp(dot(z, z)), dd = std::exp(-dot(delta, delta));
  const double trigonometric = zz / (sm * sm) * (1 - dd) * (1 - dd) / 2;
  const double positive = zz * sm * sm * (1 - 1 / zz);
  const double hyperbolic = positive * (1 - 1 / zz) / 2;
  expect_mean(squared_errors(estimates(map_of(Kind::softmax_trigonometric), kQuery, kKey, Omega), sm), trigonometric);
  expect_mean(squared_errors(estimates(map_of(Kind::positive), kQuery, kKey, Omega), sm), positive);
  Values means = estimates(map_of(Kind::hyperbolic), kQuery, kKey, Omega);
  for (double& value : means) value /= 2;
  expect_mean(squared_errors(means, sm), hyperbolic);
}

// Cho & Saul, 2009; SNNK section 3.2: half of the first-order arc-cosine kernel.
TEST(Kernels, ReluFeaturesEstimateTheArcCosineKernel) {
  FeatureMap map = map_of(Kind::elementwise);
  map.function = FeatureMap::Function::relu;
  const double q = std::sqrt(dot(kQuery, kQuery)), k = std::sqrt(dot(kKey, kKey));
  const double theta = std::acos(dot(kQuery, kKey) / (q * k));
  const double expected =
      q * k / (2 * std::numbers::pi) * (std::sin(theta) + (std::numbers::pi - theta) * std::cos(theta));
  expect_mean(estimates(map, kQuery, kKey, gaussian_omega(3)), expected);
}

/// Omega of `blocks` independent orthogonal blocks.
Tensor orthogonal_omega(OrthogonalOptions::Norms norms, uint64_t seed, int64_t blocks = kDraws / kDim) {
  Generator init(seed);
  OrthogonalFrequencies distribution({}, blocks * kDim, kDim, {norms}, kNever, init);
  return omega(distribution);
}

/// E[exp((omega_1 + omega_2) . z)] for two orthogonal rows, by the square of z; the square -|p|^2 gives
/// E[cos (omega_1 + omega_2) . p]. With |omega_1 + omega_2|^2 ~ chi^2(2 d) in a uniform direction:
///   sum_k (z^2 / 4)^k Gamma(d/2) / (k! Gamma(d/2 + k)) 2^k Gamma(d + k) / Gamma(d)
double mean_over_orthogonal_pairs(double square) {
  double term = 1, total = 1;
  for (int k = 0; k < 60; ++k) {
    term *= square / 2 * (kDim + k) / ((k + 1) * (kDim / 2.0 + k));
    total += term;
  }
  return total;
}

// The direction of PERF Theorem 2. As printed it cannot hold: for y = -x neither estimate has an error, and the
// theorem's difference is not 0.
TEST(Kernels, OrthogonalFrequenciesHaveNoBiasAndLessVariance) {
  const Tensor Omega = orthogonal_omega(OrthogonalOptions::Norms::chi, 4);
  const Values z = plus(kQuery, kKey), p = plus(kQuery, kKey, -1);
  const double sm = std::exp(dot(kQuery, kKey)), kappa = gaussian(kQuery, kKey);
  const double scale = std::exp(-dot(kQuery, kQuery) - dot(kKey, kKey));
  const struct {
    Kind kind;
    double truth;
    double variance;  ///< of one row
    double pairs;     ///< E[X_1 X_2]
  } cases[] = {
      {Kind::positive, sm, sm * sm * (std::exp(dot(z, z)) - 1), scale * mean_over_orthogonal_pairs(dot(z, z))},
      {Kind::trigonometric, kappa, std::pow(1 - std::exp(-dot(p, p)), 2) / 2, mean_over_orthogonal_pairs(-dot(p, p))}};
  for (const auto& [kind, truth, variance, pairs] : cases) {
    const Values blocks = grouped(estimates(map_of(kind), kQuery, kKey, Omega), kDim);
    expect_mean(blocks, truth);
    const double independent = variance / kDim;
    const double orthogonal = independent + (1 - 1.0 / kDim) * (pairs - truth * truth);
    expect_mean(squared_errors(blocks, truth), orthogonal);
    EXPECT_LT(orthogonal, independent);
  }
}

TEST(Kernels, OrthogonalRowsAreHaarAndOfTheRightLengths) {
  Generator generator(6);
  constexpr int64_t kBlocks = 20'000;
  const Tensor rows = haar_rows(kBlocks * kDim, kDim, generator).cast(DType::f64).view({kBlocks, kDim, kDim});
  const Tensor gram = matmul(rows.slice(0, 0, 1), rows.slice(0, 0, 1).transpose(-2, -1));
  for (int64_t i = 0; i < kDim; ++i) {
    for (int64_t j = 0; j < kDim; ++j) EXPECT_NEAR(gram.select(0, 0).select(0, i).select(0, j).item(), i == j, 1e-6);
  }
  // A Haar matrix has E[Q_ij] = 0, E[Q_ij^2] = 1 / n and E[tr(Q)^2] = 1; without the sign fix of QR its diagonal is
  // biased.
  Values traces(kBlocks), corners, squares;
  for (int64_t b = 0; b < kBlocks; ++b) {
    const double* const block = rows.data<double>() + b * kDim * kDim;
    for (int64_t i = 0; i < kDim; ++i) traces[static_cast<size_t>(b)] += block[i * kDim + i];
    corners.push_back(block[kDim * kDim - 1]);
    squares.push_back(corners.back() * corners.back());
  }
  EXPECT_NEAR(estimate(corners).mean, 0, 4 * estimate(corners).error);
  EXPECT_NEAR(estimate(traces).mean, 0, 4 * estimate(traces).error);
  expect_mean(squares, 1.0 / kDim);
  expect_mean(squared_errors(traces, 0), 1);
  // Lengths: those of N(0, I) rows, of mean square n and variance of the square 2n; or sqrt n.
  const auto squared_lengths = [](OrthogonalOptions::Norms norms) {
    const Tensor Omega = orthogonal_omega(norms, 7, 5000);
    return sum(Omega * Omega, {-1}).to_vector<double>();
  };
  const Values chi = squared_lengths(OrthogonalOptions::Norms::chi);
  expect_mean(chi, kDim);
  expect_mean(squared_errors(chi, kDim), 2 * kDim);
  for (const double length : squared_lengths(OrthogonalOptions::Norms::sqrt_dim)) EXPECT_NEAR(length, kDim, 1e-5);
}

/// Entries sin(i + phase) / 2 + base: parameters that are neither symmetric nor small.
void fill(const Tensor& parameter, double phase, double base = 0) {
  Values values(static_cast<size_t>(parameter.size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = base + 0.5 * std::sin(static_cast<double>(i) + phase);
  parameter.copy_(Tensor::from(values, parameter.shape()));
}

/// Row c of the parameter (1, C, 1, dim), or matrix c of (1, C, dim, dim), in f64.
Values component(const Tensor& parameter, int64_t c) { return parameter.select(0, 0).select(0, c).to_vector<double>(); }

/// Sigma^T p: |Sigma^T p|^2 is the variance of (Sigma n) . p.
Values transposed_product(const Values& sigma, const Values& p) {
  const size_t d = p.size();
  Values product(d, 0);
  for (size_t i = 0; i < d; ++i) {
    if (sigma.size() == d) product[i] = sigma[i] * p[i];
    for (size_t j = 0; j < d && sigma.size() > d; ++j) product[j] += sigma[i * d + j] * p[i];
  }
  return product;
}

// KL Eqs. 4, 5, 9, 10: with omega = Sigma n + mu,
//   E[cos omega . (q - k)] = 1/C sum_c cos(mu_c . p) exp(-|Sigma_c^T p|^2 / 2),  p = q - k
//   E[exp(omega . s)]      = 1/C sum_c exp(mu_c . s + |Sigma_c^T s|^2 / 2),      s = q + k
TEST(Kernels, MixturesEstimateTheMeanOfTheirComponents) {
  for (const auto covariance : {MixtureOptions::Covariance::full, MixtureOptions::Covariance::diagonal}) {
    constexpr int64_t kComponents = 3;
    Generator init(9);
    GaussianMixture mixture({}, 1, kComponents * kDraws, kDim, {covariance, kComponents}, kNever, init);
    const std::map<std::string, Tensor> state = mixture.state();
    fill(state.at("mean"), 1);
    fill(state.at("scale"), 2, 0.3);
    const Values p = plus(kQuery, kKey, -1), s = plus(kQuery, kKey);
    double fourier = 0, positive = 0;
    for (int64_t c = 0; c < kComponents; ++c) {
      const Values mu = component(state.at("mean"), c), sigma = component(state.at("scale"), c);
      const Values sp = transposed_product(sigma, p), ss = transposed_product(sigma, s);
      fourier += std::cos(dot(mu, p)) * std::exp(-dot(sp, sp) / 2) / kComponents;
      positive += std::exp(dot(mu, s) + dot(ss, ss) / 2) / kComponents;
    }
    positive *= std::exp(-dot(kQuery, kQuery) - dot(kKey, kKey));
    const Tensor Omega = omega(mixture);
    expect_mean(interleaved(estimates(map_of(Kind::trigonometric), kQuery, kKey, Omega), kComponents), fourier);
    expect_mean(interleaved(estimates(map_of(Kind::positive, 1), kQuery, kKey, Omega), kComponents), positive);
  }
}

// KL Theorem 3 in the case of its footnote 2: C = 2, mu_1 = -mu_2, Sigma_1 = Sigma_2, and one n_m for both. With
// weights of 1 / C the kernel is cos(mu . p) exp(-|Sigma p|^2 / 2), and its error for one n_m a quarter of Eq. 13's.
TEST(Kernels, TiedMixturesHaveTheErrorsOfTheorem3) {
  for (const auto covariance : {MixtureOptions::Covariance::full, MixtureOptions::Covariance::diagonal}) {
    Generator init(9);
    GaussianMixture mixture({}, 1, 2 * kDraws, kDim, {covariance, 2, true}, kNever, init);
    const std::map<std::string, Tensor> state = mixture.state();
    EXPECT_EQ(state.at("mean").shape(), (Shape{1, 1, 1, kDim}));
    EXPECT_EQ(state.at("scale").size(1), 1);
    fill(state.at("mean"), 1);
    fill(state.at("scale"), 2, 0.3);
    const Values p = plus(kQuery, kKey, -1), s = plus(kQuery, kKey);
    const Values mu = component(state.at("mean"), 0), sigma = component(state.at("scale"), 0);
    const Values sp = transposed_product(sigma, p), ss = transposed_product(sigma, s);
    const double cosine = std::cos(dot(mu, p)), decay = std::exp(-dot(sp, sp));
    const Tensor Omega = omega(mixture);
    const Values fourier = interleaved(estimates(map_of(Kind::trigonometric), kQuery, kKey, Omega), 2);
    expect_mean(fourier, cosine * std::sqrt(decay));
    expect_mean(squared_errors(fourier, cosine * std::sqrt(decay)), cosine * cosine * (1 - decay) * (1 - decay) / 2);
    expect_mean(interleaved(estimates(map_of(Kind::positive, 1), kQuery, kKey, Omega), 2),
                std::cosh(dot(mu, s)) * std::exp(dot(ss, ss) / 2 - dot(kQuery, kQuery) - dot(kKey, kKey)));
  }
  Generator init(9);
  EXPECT_THROW(GaussianMixture({}, 1, 6, kDim, {MixtureOptions::Covariance::full, 3, true}, kNever, init), Error);
}

// KL Theorem 3 for what was released. Two components at +-mu share their noise, and the kernel is normalised by draws
// and not by frequencies, so it is 2 cos(mu . p) exp(-|Sigma p|^2 / 2), and the error of one draw
// 2 cos(mu . p)^2 (1 - exp(-|Sigma p|^2))^2. (The theorem's second formula needs its norms squared.)
TEST(Kernels, ReleasedMixturesHaveTheErrorsOfTheorem3) {
  const Values p = plus(kQuery, kKey, -1), s = plus(kQuery, kKey);
  Generator init(10);
  ReleasedMixture fourier({}, 1, 2 * kDraws, kDim, false, kNever, init);
  const std::map<std::string, Tensor> state = fourier.state();
  fill(state.at("sigma"), 1, 0.2);
  fill(state.at("mean"), 2);
  const Tensor sigma = state.at("sigma").select(0, 0).cast(DType::f64);
  const Values spread = matmul(sigma, Tensor::from(p, {kDim, 1})).to_vector<double>();  // omega = sigma^T n +- mu
  const double cosine = std::cos(dot(state.at("mean").to_vector<double>(), p));
  const double decay = std::exp(-dot(spread, spread));
  Values pairs = interleaved(estimates(map_of(Kind::trigonometric), kQuery, kKey, omega(fourier)), 2);
  for (double& value : pairs) value *= 2;
  const double kernel = 2 * cosine * std::sqrt(decay);
  expect_mean(pairs, kernel);
  expect_mean(squared_errors(pairs, kernel), 2 * cosine * cosine * (1 - decay) * (1 - decay));

  ReleasedMixture positive({}, 1, kDraws, kDim, true, kNever, init);
  fill(positive.state().at("sigma"), 3);
  fill(positive.state().at("mean"), 4);
  const Values log_variance = positive.state().at("sigma").to_vector<double>();
  const Values mu = positive.state().at("mean").to_vector<double>();
  double variance = 0;  // of omega . s
  for (size_t i = 0; i < s.size(); ++i) variance += std::exp(log_variance[i]) * s[i] * s[i];
  const double scale = std::exp(-dot(kQuery, kQuery) - dot(kKey, kKey) + dot(mu, s));
  const Values found = estimates(map_of(Kind::positive, 1), kQuery, kKey, omega(positive));
  expect_mean(found, scale * std::exp(variance / 2));
  expect_mean(squared_errors(found, scale * std::exp(variance / 2)),
              scale * scale * (std::exp(2 * variance) - std::exp(variance)));
}

// KL Eqs. 6 and 12. Rows of H G Pi H B / sqrt P are already N(0, I), and S replaces their common length by independent
// ones. As released, S, G and B begin as N(0, 1 / P), so entries of V have a deviation of P^(-3/2), and if only S
// learns, the length of all rows of a block, |G|, differs from block to block.
TEST(Kernels, FastFoodEstimatesTheGaussianKernel) {
  constexpr int64_t kBlocks = 20'000;
  const auto matrix = [](const FastFoodOptions& options, int64_t steps = 0) {
    Generator init(13);
    FastFoodFrequencies distribution({}, kBlocks * kDim, kDim, options, {.interval = steps > 0 ? 1 : 0}, init);
    Generator noise(14);
    for (int64_t step = 0; step < steps; ++step) {  // the first one draws nothing
      Context training{noise, true, step};
      distribution.frequencies(training);
    }
    Context context{noise};
    return composed::dense(distribution.frequencies(context), kDim).value().cast(DType::f64);  // (1, M, dim)
  };
  const auto squares = [](const Tensor& V) { return grouped((V * V).to_vector<double>(), kDim * kDim); };
  using Learn = FastFoodOptions::Learn;
  for (const auto& [learn, steps] :
       {std::pair{Learn::none, 0}, std::pair{Learn::sgb, 0}, std::pair{Learn::s, 0}, std::pair{Learn::s, 2}}) {
    const Tensor V = matrix({.learn = learn}, steps);
    expect_mean(squares(V), 1);
    const auto estimated = [&](const FeatureMap& map) { return grouped(estimates(map, kQuery, kKey, V), kDim); };
    expect_mean(estimated(map_of(Kind::trigonometric)), gaussian(kQuery, kKey));
    expect_mean(estimated(map_of(Kind::positive, 1)), gaussian(kQuery, kKey));
  }
  expect_mean(squares(matrix({.sigma = 2})), 0.25);
  expect_mean(squares(matrix({.released_init = true})), std::pow(kDim, -3));
  Values of_blocks = squares(matrix({.learn = Learn::s, .released_init = true}));  // |G|^2 |S|^2 / P^2
  for (double& one : of_blocks) one *= one;
  expect_mean(of_blocks, std::pow((1 + 2.0 / kDim) / kDim, 2));  // E |G|^4 = P^2 + 2 P, E |S|^4 = 1 + 2 / P
}

// The shifts of PERF's exponents cancel if eps is 0: attention with them equals attention without.
TEST(Kernels, ShiftsOfExponentsChangeNothingWithoutEps) {
  Generator generator(11);
  const Tensor Q = normal({2, 2, 9, kDim}, generator, 0, 1, DType::f64);
  const Tensor K = normal({2, 2, 9, kDim}, generator, 0, 1, DType::f64);
  const Tensor V = normal({2, 2, 9, kDim}, generator, 0, 1, DType::f64);
  const Tensor Omega = gaussian_omega(12, 16);
  for (const Kind kind : {Kind::positive, Kind::hyperbolic, Kind::softmax_trigonometric}) {
    KernelAttentionSpec spec;
    spec.map = map_of(kind);
    ASSERT_TRUE(spec.shifts());
    const Tensor weights = matmul(composed::feature_map(spec.map, Q, Omega, false, {}, false).value(),
                                  composed::feature_map(spec.map, K, Omega, true, {}, false).value().transpose(-2, -1));
    const Values expected = (matmul(weights, V) / sum(weights, {-1}, true)).to_vector<double>();
    const Values found = kernel_attention(spec, Variable(Q), K, V, Omega, {}).value().to_vector<double>();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-9 * std::max(1.0, std::abs(expected[i])));
    }
  }
}

}  // namespace
}  // namespace bochner
