// The measurements of the approximation experiment against closed forms and direct computation.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "experiments/approximation/pretrained.h"

namespace bochner {
namespace {

using Rows = std::vector<std::vector<double>>;

/// Mean of f(t) over t ~ N(0, 1), by the trapezoidal rule.
double gaussian_mean(const std::function<double(double)>& f) {
  double sum = 0;
  constexpr double kStep = 1e-3;
  for (double t = -14; t <= 14; t += kStep) sum += f(t) * std::exp(-t * t / 2) * kStep;
  return sum / std::sqrt(2 * std::numbers::pi);
}

double gaussian_variance(const std::function<double(double)>& f) {
  const double mean = gaussian_mean(f);
  return gaussian_mean([&](double t) { return (f(t) - mean) * (f(t) - mean); });
}

/// (1, 1, L, D) as rows.
Rows rows_of(const Tensor& x) {
  const std::vector<double> values = x.to_vector<double>();
  Rows rows;
  for (int64_t i = 0; i < x.size(2); ++i) {
    rows.emplace_back(values.begin() + i * x.size(3), values.begin() + (i + 1) * x.size(3));
  }
  return rows;
}

/// softmax(Q K^T / sqrt D) V, number by number.
Rows attention_of(const Rows& Q, const Rows& K, const Rows& V) {
  Rows O(Q.size(), std::vector<double>(V[0].size(), 0));
  for (size_t i = 0; i < Q.size(); ++i) {
    double total = 0;
    for (size_t j = 0; j < K.size(); ++j) {
      double score = 0;
      for (size_t d = 0; d < K[j].size(); ++d) score += Q[i][d] * K[j][d];
      const double weight = std::exp(score / std::sqrt(static_cast<double>(K[j].size())));
      total += weight;
      for (size_t d = 0; d < V[j].size(); ++d) O[i][d] += weight * V[j][d];
    }
    for (double& value : O[i]) value /= total;
  }
  return O;
}

Rows product(const Rows& A, const Tensor& W) {
  const std::vector<double> w = W.to_vector<double>();
  const auto columns = static_cast<size_t>(W.size(1));
  Rows result(A.size(), std::vector<double>(columns, 0));
  for (size_t i = 0; i < A.size(); ++i) {
    for (size_t k = 0; k < A[i].size(); ++k) {
      for (size_t j = 0; j < columns; ++j) result[i][j] += A[i][k] * w[k * columns + j];
    }
  }
  return result;
}

/// LayerNorm of each row of A + B.
Rows normed_sum(const Rows& A, const Rows& B) {
  Rows result = A;
  for (size_t i = 0; i < A.size(); ++i) {
    const auto n = static_cast<double>(A[i].size());
    double mean = 0;
    double variance = 0;
    for (size_t j = 0; j < A[i].size(); ++j) mean += (result[i][j] += B[i][j]) / n;
    for (const double value : result[i]) variance += (value - mean) * (value - mean) / n;
    for (double& value : result[i]) value = (value - mean) / std::sqrt(variance + 1e-5);
  }
  return result;
}

// omega.x for x of any dimension is |x| t with t ~ N(0, 1), so both errors are integrals over a line.
TEST(Approximation, ErrorsOfOneFeatureAreTheVariancesOfTheEstimators) {
  for (const double length : {0.3, 0.8, 1.2}) {
    for (const double angle : {0.4, 1.5, 2.8}) {
      const double l2 = length * length;
      const double plus = length * std::sqrt(2 * (1 + std::cos(angle)));
      const double minus = length * std::sqrt(2 * (1 - std::cos(angle)));
      const KernelErrors errors = kernel_errors(length, angle);
      const double trigonometric = gaussian_variance([&](double t) { return std::exp(l2) * std::cos(minus * t); });
      const double positive = gaussian_variance([&](double t) { return std::exp(plus * t - l2); });
      EXPECT_NEAR(errors.trigonometric / trigonometric, 1, 1e-6) << length << " " << angle;
      EXPECT_NEAR(errors.positive / positive, 1, 1e-6) << length << " " << angle;
      EXPECT_NEAR(error_ratio(length, angle) * errors.positive / errors.trigonometric, 1, 1e-9);
    }
  }
  EXPECT_NEAR(error_ratio(1, std::numbers::pi / 2), (1 - std::exp(-2.0)) / 2, 1e-12);
  EXPECT_GT(error_ratio(1, 3.1), 100);   // PERF Fig. 2: positive features win where the kernel is small
  EXPECT_LT(error_ratio(1, 0.1), 0.01);  // and lose where it is large
}

TEST(Approximation, OutputErrorIsTheMeanSquareOfTheDifference) {
  constexpr double kScale = 1.7;
  Generator generator(5);
  const double found = output_error("none", 6, 4, kScale, generator);  // `none` returns V
  Generator again(5);
  const Tensor Q = normal({1, 1, 6, 4}, again, 0, kScale);
  const Tensor K = normal({1, 1, 6, 4}, again, 0, kScale);
  const Rows V = rows_of(normal({1, 1, 6, 4}, again));
  const Rows O = attention_of(rows_of(Q), rows_of(K), V);
  double expected = 0;
  for (size_t i = 0; i < 6; ++i) {
    for (size_t d = 0; d < 4; ++d) expected += (V[i][d] - O[i][d]) * (V[i][d] - O[i][d]) / 24;
  }
  EXPECT_NEAR(found, expected, 1e-5 * expected);
  EXPECT_LT(output_error("softmax", 6, 4, kScale, generator), 1e-12);
}

// For short vectors, the error is that of a mean of M features: with 64 times as many features, about 1 / 64 of it.
TEST(Approximation, OutputErrorFallsWithTheFeatures) {
  for (const char* name : {"performer", "performer-trig"}) {
    double few = 0;
    double many = 0;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Generator a(seed);
      Generator b(seed);
      few += output_error({name, {{"features", 16}}}, 64, 16, 0.5, a);
      many += output_error({name, {{"features", 1024}}}, 64, 16, 0.5, b);
    }
    EXPECT_GT(few, 16 * many) << name;
    EXPECT_LT(few, 256 * many) << name;
  }
}

TEST(Approximation, LayeredErrorsOfAttentionAlone) {
  constexpr int64_t kLength = 5;
  constexpr int64_t kDim = 3;
  Generator generator(9);
  const std::vector<double> found = layered_errors("none", {.length = kLength, .dim = kDim, .layers = 2}, generator);
  ASSERT_EQ(found.size(), 2U);
  Generator again(9);
  Rows x = rows_of(normal({1, kLength, kDim}, again).view({1, 1, kLength, kDim}));
  Rows y = x;
  for (size_t layer = 0; layer < 2; ++layer) {
    const auto weights = [&] { return normal({kDim, kDim}, again, 0, 1 / std::sqrt(3.0)); };
    const Tensor Wq = weights();
    const Tensor Wk = weights();
    const Tensor Wv = weights();
    x = normed_sum(x, product(x, Wv));
    y = normed_sum(y, attention_of(product(y, Wq), product(y, Wk), product(y, Wv)));
    double expected = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double distance = 0;
      double norm = 0;
      for (size_t j = 0; j < x[i].size(); ++j) {
        distance += (x[i][j] - y[i][j]) * (x[i][j] - y[i][j]);
        norm += y[i][j] * y[i][j];
      }
      expected += std::sqrt(distance / norm) / kLength;
    }
    EXPECT_NEAR(found[layer], expected, 1e-4) << layer;
  }
}

TEST(Approximation, LayeredErrorsOfWholeBlocks) {
  const Stack stack{.length = 32, .dim = 4, .heads = 2, .layers = 3, .hidden = 16};
  Generator exact(1);
  for (const double error : layered_errors("softmax", stack, exact)) EXPECT_EQ(error, 0);
  Generator coarse(1);
  Generator fine(1);
  const double few = layered_errors({"performer", {{"features", 4}}}, stack, coarse).back();
  const double many = layered_errors({"performer", {{"features", 2048}}}, stack, fine).back();
  EXPECT_GT(few, 2 * many);
  EXPECT_GT(many, 0);
}

TEST(Approximation, SpectralErrorIsARatioOfLargestSingularValues) {
  Generator generator(3);
  const auto random = [&](int64_t dim) { return normal({1, 1, 7, dim}, generator, 0, 1, DType::f64); };
  const Tensor Q = random(1);
  const Tensor K = random(1);
  const Tensor V = random(1);  // with one column, the singular value is the length
  const Rows O = attention_of(rows_of(Q), rows_of(K), rows_of(V));
  double distance = 0;
  double norm = 0;
  for (size_t i = 0; i < O.size(); ++i) {
    distance += std::pow(rows_of(V)[i][0] - O[i][0], 2);
    norm += O[i][0] * O[i][0];
  }
  EXPECT_NEAR(spectral_error("none", 1, {Q, K, V}, generator), std::sqrt(distance / norm), 1e-9);
}

// With every row of (Q; K) among the landmarks, Nystrom's matrix is the matrix itself.
TEST(Approximation, NystromWithAllLandmarksIsExact) {
  Generator generator(4);
  const auto random = [&] { return normal({1, 1, 6, 4}, generator, 0, 1, DType::f64); };
  const Tensor Q = random();
  const Tensor K = random();
  const Tensor V = random();
  EXPECT_LT(spectral_error("nystrom", 200, {Q, K, V}, generator), 1e-6);
  EXPECT_GT(spectral_error("nystrom", 1, {Q, K, V}, generator), 1e-3);
}

// Softmax attention of these inputs is what each block's attention computes.
TEST(Approximation, InputsOfBlocksAreThoseThatTheirAttentionReads) {
  std::vector<Tensor> outputs;  // (1, heads, L, D)
  BertOptions options{.vocabulary = 20, .length = 16, .layers = 2, .dim = 6, .hidden = 8};
  options.attention.heads = 3;
  options.attention.watch = [&](const std::string&, const Tensor& O) { outputs.push_back(O); };
  options.deviation = 0.8;
  Generator init(5);
  Bert bert({}, options, init);
  const std::vector<AttentionInputs> inputs = attention_inputs(bert, Tensor::from<int64_t>({2, 7, 1, 19, 8}, {1, 5}));
  ASSERT_EQ(inputs.size(), 2U);
  ASSERT_EQ(outputs.size(), 2U);
  for (size_t block = 0; block < 2; ++block) {
    for (int64_t head = 0; head < 3; ++head) {
      const auto of_head = [&](const Tensor& x) {
        return rows_of(x.slice(1, head, head + 1).cast(DType::f64).contiguous());
      };
      const Rows expected = attention_of(of_head(inputs[block].Q), of_head(inputs[block].K), of_head(inputs[block].V));
      const Rows found = of_head(outputs[block]);
      for (size_t i = 0; i < 5; ++i) {
        for (size_t d = 0; d < 2; ++d) EXPECT_NEAR(found[i][d], expected[i][d], 1e-5) << block << head << i << d;
      }
    }
  }
}

// Scores (1, 3) and (2, 6) for two queries: deviations 1 and 2.
TEST(Approximation, ScoresDeviateOverTheKeysOfAQuery) {
  const Tensor Q = Tensor::from<double>({1, 2}, {1, 1, 2, 1});
  const Tensor K = Tensor::from<double>({1, 3}, {1, 1, 2, 1});
  EXPECT_DOUBLE_EQ(deviation_of_scores({Q, K, K}), std::sqrt((1 + 4) / 2.0));
}

}  // namespace
}  // namespace bochner
