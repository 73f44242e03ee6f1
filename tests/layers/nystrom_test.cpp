// The theory of Skyformer: Lemma 1, Theorem 2, and the Lemmas C.1 and C.2 on which it rests.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/fused/gaussian_kernel.h"
#include "engine/ops/binary.h"
#include "engine/ops/linalg.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/attention/gaussian.h"

namespace bochner {
namespace {

Tensor points(int64_t n, int64_t p, double spread, Generator& generator) {
  return normal({n, p}, generator, 0, spread, DType::f64);
}

Tensor transposed(const Tensor& a) { return a.transpose(0, 1); }

/// kappa(x, x), the Gaussian kernel of rows that are already scaled.
Tensor gaussian_matrix(const Tensor& x) {
  const Variable rows(x.view({1, 1, x.size(0), x.size(1)}));
  return gaussian_kernel(rows, rows).value().view({x.size(0), x.size(0)});
}

/// Ascending.
std::vector<double> eigenvalues(const Tensor& symmetric) { return eigh(symmetric).values.to_vector<double>(); }
/// Of any matrix, its largest singular value.
double norm(const Tensor& a) { return svd(a).s.to_vector<double>().front(); }

/// SKY Definition 1 times sqrt(n): column k is sqrt(n / d) e_i, i uniform among n, with replacement.
std::vector<int64_t> sampled(int64_t n, int64_t d, Generator& generator) {
  std::vector<int64_t> rows;
  for (int64_t k = 0; k < d; ++k) rows.push_back(generator.below(n));
  return rows;
}

/// The columns of `a` with these numbers, side by side.
Tensor columns(const Tensor& a, const std::vector<int64_t>& numbers) {
  Tensor chosen = Tensor::empty({a.size(0), static_cast<int64_t>(numbers.size())}, a.dtype());
  for (size_t k = 0; k < numbers.size(); ++k) {
    chosen.select(1, static_cast<int64_t>(k)).copy_(a.select(1, numbers[k]));
  }
  return chosen;
}

// SKY Lemma 1: SM(Q, Q) = exp(Q Q^T / sqrt p) is positive semi-definite, being D^(1/2) kappa D^(1/2).
TEST(SkyTheory, TheSoftmaxKernelOfOneSetOfPointsIsPositiveSemidefinite) {
  Generator generator(1);
  for (const double spread : {0.1, 1.0, 2.0}) {
    for (const int64_t p : {1, 4, 32}) {
      const Tensor Q = points(40, p, spread, generator);
      const Tensor q = Q * std::pow(static_cast<double>(p), -0.25);
      const Tensor SM = exp(matmul(q, transposed(q)));
      const std::vector<double> values = eigenvalues(SM);
      EXPECT_GT(values.front(), -1e-12 * values.back()) << spread << " " << p;
      const Tensor root = exp(sum(q * q, {1}, true) * 0.5);  // D^(1/2), D_i = exp(|q_i|^2)
      const Tensor product = gaussian_matrix(q) * root * transposed(root);
      EXPECT_LT(amax(abs(product - SM)).item(), 1e-12 * amax(SM).item());
    }
  }
  // For two sets of points it is not even symmetric, which is the reason for Skyformer's completion.
  const Tensor Q = points(5, 2, 1, generator);
  const Tensor K = points(5, 2, 1, generator);
  const Tensor A = exp(matmul(Q, transposed(K)));
  EXPECT_GT(amax(abs(A - transposed(A))).item(), 0.1);
}

// SKY Lemma C.1 (matrix Bernstein): P(|sum X_k| >= t) <= 2 n exp(-(t^2 / 2) / (s^2 + R t / 3)), s^2 >= |sum E X_k^2|.
// Here X_k = +-B_k with fair signs and B_k = H_i H_i^T, so E X_k^2 = B_k^2 and R = max |B_k|.
TEST(SkyTheory, SumsOfRandomMatricesKeepBernsteinsBound) {
  Generator generator(2);
  constexpr int64_t kSize = 2;
  constexpr int kTerms = 200;
  constexpr int kTrials = 2000;
  std::vector<Tensor> terms;
  Tensor squares = Tensor::zeros({kSize, kSize}, DType::f64);
  double R = 0;
  for (int k = 0; k < kTerms; ++k) {
    Tensor h = points(kSize, 1, 1, generator);
    h = h * (1 / norm(h));
    terms.push_back(matmul(h, transposed(h)));
    squares = squares + matmul(terms.back(), terms.back());
    R = std::max(R, norm(terms.back()));
  }
  const double variance = norm(squares);
  std::vector<double> norms;
  for (int trial = 0; trial < kTrials; ++trial) {
    Tensor total = Tensor::zeros({kSize, kSize}, DType::f64);
    for (const Tensor& term : terms) total = total + term * (generator.below(2) == 0 ? -1.0 : 1.0);
    norms.push_back(norm(total));
  }
  int informative = 0;
  for (const double share : {1.0, 1.8, 2.0, 2.2, 2.5, 3.0}) {
    const double t = share * std::sqrt(variance);
    const double bound = 2 * kSize * std::exp(-t * t / 2 / (variance + R * t / 3));
    const double found =
        static_cast<double>(std::count_if(norms.begin(), norms.end(), [&](double x) { return x >= t; })) / kTrials;
    EXPECT_LE(found, bound) << t;
    informative += bound < 1 && found > 0 ? 1 : 0;
  }
  EXPECT_GT(informative, 0);  // the bound says something in some cases
}

// SKY Lemma C.2: for H with orthogonal rows, d >= 28/3 (s / beta) log(2 n / delta) uniform samples give
// |H Pi Pi^T H^T - H H^T| <= |H|^2 / 2 with probability 1 - delta, where
//   s = |H|_F^2 / |H|^2,  beta = min_i |H|_F^2 / (n |H_i|^2).
TEST(SkyTheory, EnoughColumnsOfAMatrixWithOrthogonalRowsGiveItsSquare) {
  Generator generator(3);
  constexpr int64_t kSize = 60;
  constexpr double kDelta = 0.1;
  constexpr int kTrials = 100;
  const Tensor V = qr(points(kSize, kSize, 1, generator), true).q;
  Tensor sizes = Tensor::empty({kSize, 1}, DType::f64);
  for (int64_t i = 0; i < kSize; ++i) sizes.data<double>()[i] = std::pow(0.5, static_cast<double>(i));
  const Tensor H = V * sizes;  // rows are orthogonal: H H^T = diag(sizes^2)
  const Tensor square = matmul(H, transposed(H));
  const double frobenius = sum(H * H).item();
  const double largest = norm(H) * norm(H);
  const double s = frobenius / largest;
  const double beta = frobenius / (kSize * amax(sum(H * H, {0})).item());
  ASSERT_LE(beta, 1);
  const auto failures = [&](int64_t d) {
    int failed = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const Tensor chosen = columns(H, sampled(kSize, d, generator)) * std::sqrt(kSize / static_cast<double>(d));
      failed += norm(matmul(chosen, transposed(chosen)) - square) > largest / 2 ? 1 : 0;
    }
    return failed;
  };
  const auto enough = static_cast<int64_t>(std::ceil(28.0 / 3 * s / beta * std::log(2 * kSize / kDelta)));
  EXPECT_LE(failures(enough), kDelta * kTrials);
  EXPECT_GT(failures(2), kDelta * kTrials);  // and too few do not
}

// SKY Theorem 2: with lambda = epsilon |C| and d >= 28/3 (d_stat / beta) log(2 * 2n / delta) landmarks,
// C~ <= C- <= C~ + lambda I in the Loewner order with probability 1 - delta; its upper right block then is within
// lambda of C = kappa(Q, K). The constant is that of the proof of Lemma C.2.
TEST(SkyTheory, EnoughLandmarksApproximateTheKernelMatrixInTheLoewnerOrder) {
  Generator generator(4);
  constexpr int64_t kTokens = 100;
  constexpr int64_t kBoth = 2 * kTokens;
  constexpr double kDelta = 0.1;
  constexpr int kTrials = 10;
  const Tensor x = points(kBoth, 2, 0.25, generator);  // q and k, scaled
  const Tensor completed = gaussian_matrix(x);         // C- of (Q; K), (2n, 2n)
  const Tensor C = completed.slice(0, 0, kTokens).slice(1, kTokens, kBoth).contiguous();
  for (const double epsilon : {0.5, 0.1}) {
    const double lambda = epsilon * norm(C);
    const Tensor I = identity(kBoth, DType::f64, Device::cpu());
    const Tensor leverages = matmul(completed, solve(completed + I * lambda, I));
    double statistical = 0;
    double largest = 0;
    for (int64_t i = 0; i < kBoth; ++i) {
      const double leverage = leverages.select(0, i).select(0, i).item();
      statistical += leverage;
      largest = std::max(largest, leverage);
    }
    const double beta = statistical / (kBoth * largest);
    const auto enough = static_cast<int64_t>(std::ceil(28.0 / 3 * statistical / beta * std::log(2 * kBoth / kDelta)));
    const auto trial = [&](int64_t d) {
      const std::vector<int64_t> rows = sampled(kBoth, d, generator);
      const Tensor CS = columns(completed, rows);        // C- S, but for its scale, which cancels
      const Tensor SCS = columns(transposed(CS), rows);  // S^T C- S
      const Tensor approximate = matmul(matmul(CS, pinv(SCS, 1e-9)), transposed(CS));
      const std::vector<double> below = eigenvalues(completed - approximate);
      EXPECT_GT(below.front(), -1e-6 * norm(completed)) << d;  // C~ <= C-, however few landmarks there are
      const bool holds = below.back() <= lambda;               // C- <= C~ + lambda I
      if (holds) {
        const Tensor block = approximate.slice(0, 0, kTokens).slice(1, kTokens, kBoth).contiguous();
        EXPECT_LE(norm(block - C), lambda * (1 + 1e-9));
      }
      return holds;
    };
    int failed = 0;
    for (int i = 0; i < kTrials; ++i) failed += trial(enough) ? 0 : 1;
    EXPECT_LE(failed, kDelta * kTrials) << enough << " landmarks, d_stat " << statistical << ", beta " << beta;
  }
  // One landmark leaves more than a tenth of C: the theorem's condition is not empty.
  const std::vector<int64_t> one = {0};
  const Tensor CS = columns(completed, one);
  EXPECT_GT(eigenvalues(completed - matmul(CS, transposed(CS))).back(), 0.1 * norm(C));
}

}  // namespace
}  // namespace bochner
