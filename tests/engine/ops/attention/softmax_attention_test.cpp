#include "engine/ops/attention/softmax_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/ops/copy.h"
#include "engine/parallel.h"
#include "engine/sanitizer.h"
#include "tests/engine/ops/oracle.h"
#include "tests/engine/ops/padding.h"

namespace bochner {
namespace {

struct Problem {
  Tensor Q, K, V, dO, mask;  ///< mask undefined: all keys are real
  SoftmaxAttentionOptions options;
};

struct Expected {
  std::vector<double> O, logsumexp, dQ, dK, dV;  ///< row-major
};

/// The definition, in double precision, one query at a time.
Expected reference(const Problem& p) {
  const auto Q = p.Q.to_vector<double>();
  const auto K = p.K.to_vector<double>();
  const auto V = p.V.to_vector<double>();
  const auto dO = p.dO.to_vector<double>();
  const auto mask = p.mask.defined() ? p.mask.to_vector<double>() : std::vector<double>();
  const auto B = p.Q.size(0), H = p.Q.size(1), N = p.Q.size(2), M = p.K.size(2), D = p.Q.size(3), E = p.V.size(3);
  Expected e{std::vector<double>(dO.size()), std::vector<double>(static_cast<size_t>(B * H * N)),
             std::vector<double>(Q.size()), std::vector<double>(K.size()), std::vector<double>(V.size())};
  const auto factors = p.options.dropout.active()
                           ? dropout_mask({B, H, N, M}, p.options.dropout, DType::f64).to_vector<double>()
                           : std::vector<double>();
  for (int64_t bh = 0; bh < B * H; ++bh) {
    for (int64_t i = 0; i < N; ++i) {
      const double* q = &Q[static_cast<size_t>((bh * N + i) * D)];
      const double* g = &dO[static_cast<size_t>((bh * N + i) * E)];
      double* o = &e.O[static_cast<size_t>((bh * N + i) * E)];
      std::vector<double> s(static_cast<size_t>(M), -std::numeric_limits<double>::infinity());
      double top = -std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j < M; ++j) {
        if (!mask.empty() && mask[static_cast<size_t>(bh / H * M + j)] == 0) continue;
        if (p.options.causal && j > i) continue;
        double& score = s[static_cast<size_t>(j)];
        score = 0;
        for (int64_t d = 0; d < D; ++d) score += p.options.scale * q[d] * K[static_cast<size_t>((bh * M + j) * D + d)];
        top = std::max(top, score);
      }
      double sum = 0;
      for (const double score : s) sum += std::isinf(top) ? 0 : std::exp(score - top);
      e.logsumexp[static_cast<size_t>(bh * N + i)] = top + std::log(sum);
      if (sum == 0) continue;
      std::vector<double> P(s.size());
      std::vector<double> kept(s.size(), 1);
      std::vector<double> dP(s.size());
      double delta = 0;
      for (int64_t j = 0; j < M; ++j) {
        const auto at = static_cast<size_t>(j);
        P[at] = std::exp(s[at] - top) / sum;
        if (!factors.empty()) kept[at] = factors[static_cast<size_t>((bh * N + i) * M + j)];
        for (int64_t c = 0; c < E; ++c) {
          const auto v = static_cast<size_t>((bh * M + j) * E + c);
          o[c] += P[at] * kept[at] * V[v];
          dP[at] += kept[at] * g[c] * V[v];
          e.dV[v] += P[at] * kept[at] * g[c];
        }
        delta += P[at] * dP[at];
      }
      for (int64_t j = 0; j < M; ++j) {
        const double dS = P[static_cast<size_t>(j)] * (dP[static_cast<size_t>(j)] - delta) * p.options.scale;
        for (int64_t d = 0; d < D; ++d) {
          const auto k = static_cast<size_t>((bh * M + j) * D + d);
          e.dQ[static_cast<size_t>((bh * N + i) * D + d)] += dS * K[k];
          e.dK[k] += dS * q[d];
        }
      }
    }
  }
  return e;
}

Problem problem(int64_t b, int64_t h, int64_t n, int64_t m, int64_t d, int64_t e, DType dtype, uint64_t seed = 1) {
  Generator generator(seed);
  Problem p;
  p.Q = normal({b, h, n, d}, generator, 0, 1, dtype);
  p.K = normal({b, h, m, d}, generator, 0, 1, dtype);
  p.V = normal({b, h, m, e}, generator, 0, 1, dtype);
  p.dO = normal({b, h, n, e}, generator, 0, 1, dtype);
  p.options.scale = 1 / std::sqrt(static_cast<double>(d));
  return p;
}

void expect_near(const Tensor& actual, const std::vector<double>& expected, double tolerance, const char* what) {
  const auto values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == expected[i]) continue;
    ASSERT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << what << " at " << i;
  }
}

void check(const Problem& p, double tolerance) {
  const Expected e = reference(p);
  const auto attended = softmax_attention(p.Q, p.K, p.V, p.mask, p.options);
  expect_near(attended.O, e.O, tolerance, "O");
  expect_near(attended.logsumexp, e.logsumexp, tolerance, "logsumexp");
  const auto grads = softmax_attention_backward(p.dO, p.Q, p.K, p.V, p.mask, attended, p.options);
  expect_near(grads.dQ, e.dQ, tolerance, "dQ");
  expect_near(grads.dK, e.dK, tolerance, "dK");
  expect_near(grads.dV, e.dV, tolerance, "dV");
}

TEST(SoftmaxAttention, EqualsTheDefinitionForAllLengthsSizesMasksAndTypes) {
  uint64_t seed = 0;
  for (const int64_t queries : {1, 7, 63, 64, 65, 130}) {
    for (const int64_t keys : {1, 64, 65, 130}) {
      for (const int64_t dim : {1, 8, 17, 32, 64}) {
        const DType dtype = ++seed % 3 == 0 ? DType::f32 : DType::f64;
        if (kAddressSanitizer && seed % 7 > 1) continue;
        Problem p = problem(2, 2, queries, keys, dim, seed % 5 == 0 ? dim + 3 : dim, dtype, seed);
        p.options.causal = seed % 4 == 1;
        if (seed % 2 == 0) p.mask = padding(2, keys, seed);
        SCOPED_TRACE(fmt::format("{} queries, {} keys, dim {}, causal {}, mask {}, {}", queries, keys, dim,
                                 p.options.causal, p.mask.defined(), name_of(dtype)));
        check(p, dtype == DType::f32 ? 2e-5 : 1e-12);
      }
    }
  }
}

TEST(SoftmaxAttention, DropsTheProbabilitiesThatTheGeneratorSays) {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{70, 130}, {130, 70}, {5, 3}}) {
    for (const bool causal : {false, true}) {
      Problem p = problem(2, 2, queries, keys, 8, 8, DType::f64);
      p.options.dropout = Dropout::at(0.3, Generator(7, 12));
      p.options.causal = causal;
      check(p, 1e-12);
      p.mask = padding(2, keys, 3);
      check(p, 1e-12);
    }
  }
}

TEST(SoftmaxAttention, SparseMaskMayJumpBeyondTheWindowOfRandomWords) {
  Problem p = problem(1, 1, 3, 3000, 4, 4, DType::f64);
  p.mask = Tensor::zeros({1, 3000}, DType::boolean);
  for (const int64_t key : {2, 1500, 2999}) fill(p.mask.slice(1, key, key + 1), 1);
  p.options.dropout = Dropout::at(0.5, Generator(5));
  check(p, 1e-12);
}

TEST(SoftmaxAttention, GradientsAgreeWithCentralDifferences) {
  Problem p = problem(1, 2, 9, 70, 5, 3, DType::f64);
  p.mask = padding(1, 70, 5);
  p.options.dropout = Dropout::at(0.2, Generator(5));
  p.options.causal = true;
  const auto attended = softmax_attention(p.Q, p.K, p.V, p.mask, p.options);
  const auto grads = softmax_attention_backward(p.dO, p.Q, p.K, p.V, p.mask, attended, p.options);
  const auto loss = [&] { return oracle::dot(softmax_attention(p.Q, p.K, p.V, p.mask, p.options).O, p.dO); };
  for (const auto& [x, dx] : {std::pair{p.Q, grads.dQ}, {p.K, grads.dK}, {p.V, grads.dV}})
    oracle::expect_gradient(dx, loss, x, 11);
}

TEST(SoftmaxAttention, QueriesWithoutKeysGetZerosAndNoGradient) {
  Problem p = problem(2, 2, 66, 70, 8, 8, DType::f32);
  p.mask = Tensor::zeros({2, 70}, DType::boolean);
  fill(p.mask.slice(0, 1, 2).slice(1, 10, 70), 1);  // example 0 has no key, example 1 none before key 10
  p.options.causal = true;
  check(p, 2e-5);
  const auto attended = softmax_attention(p.Q, p.K, p.V, p.mask, p.options);
  for (const double value : attended.O.select(0, 0).to_vector<double>()) ASSERT_EQ(value, 0);
  for (const double value : attended.O.select(0, 1).slice(1, 0, 10).to_vector<double>()) ASSERT_EQ(value, 0);
}

TEST(SoftmaxAttention, PaddedKeysAreNeverRead) {
  Problem p = problem(2, 1, 20, 70, 8, 8, DType::f32);
  p.mask = padding(2, 70, 9);
  const auto before = softmax_attention(p.Q, p.K, p.V, p.mask, p.options);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t j = 0; j < 70; ++j) {
      if (p.mask.select(0, b).select(0, j).item() != 0) continue;
      fill(p.K.select(0, b).slice(1, j, j + 1), std::nan(""));
      fill(p.V.select(0, b).slice(1, j, j + 1), std::nan(""));
    }
  }
  const auto after = softmax_attention(p.Q, p.K, p.V, p.mask, p.options);
  EXPECT_EQ(before.O.to_vector<float>(), after.O.to_vector<float>());
  const auto grads = softmax_attention_backward(p.dO, p.Q, p.K, p.V, p.mask, after, p.options);
  for (const Tensor& g : {grads.dQ, grads.dK, grads.dV}) {
    for (const float value : g.to_vector<float>()) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(SoftmaxAttention, NotANumberIsNotHidden) {
  Problem p = problem(1, 1, 3, 70, 8, 8, DType::f32);
  fill(p.K.slice(2, 40, 41), std::nan(""));
  for (const float value : softmax_attention(p.Q, p.K, p.V, {}, p.options).O.to_vector<float>()) {
    ASSERT_TRUE(std::isnan(value));
  }
}

TEST(SoftmaxAttention, HugeInputsStayFinite) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Problem p = problem(1, 2, 130, 130, 32, 32, dtype);
    for (const Tensor& x : {p.Q, p.K, p.V}) {
      visit_floating(dtype, "test", [&]<class T>(TypeTag<T>) {
        for (int64_t i = 0; i < x.size(); ++i) x.data<T>()[i] *= T(1e4);
      });
    }
    const auto attended = softmax_attention(p.Q, p.K, p.V, {}, p.options);
    const auto grads = softmax_attention_backward(p.dO, p.Q, p.K, p.V, {}, attended, p.options);
    for (const Tensor& x : {attended.O, attended.logsumexp, grads.dQ, grads.dK, grads.dV}) {
      for (const double value : x.to_vector<double>()) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(SoftmaxAttention, ReadsAndWritesViewsOfAJointProjection) {
  Generator generator(3);
  const Tensor joint = normal({2, 70, 3, 2, 8}, generator);
  Problem p;
  p.Q = joint.select(2, 0).transpose(1, 2);
  p.K = joint.select(2, 1).transpose(1, 2);
  p.V = joint.select(2, 2).transpose(1, 2);
  p.dO = normal({2, 2, 70, 8}, generator);
  p.options.scale = 0.35;
  const Expected e = reference(p);
  const auto attended = softmax_attention(p.Q, p.K, p.V, {}, p.options);
  EXPECT_TRUE(attended.O.transpose(1, 2).is_contiguous());
  expect_near(attended.O, e.O, 2e-5, "O");
  const auto grads = softmax_attention_backward(p.dO, p.Q, p.K, p.V, {}, attended, p.options);
  EXPECT_TRUE(grads.dQ.shares_storage(grads.dV));
  EXPECT_EQ(grads.dV.strides(), joint.select(2, 2).transpose(1, 2).strides());
  expect_near(grads.dQ, e.dQ, 2e-5, "dQ");
  expect_near(grads.dK, e.dK, 2e-5, "dK");
  expect_near(grads.dV, e.dV, 2e-5, "dV");
  // Heads whose elements have a stride other than 1 are copied first.
  const Tensor turned = p.Q.transpose(2, 3).clone().transpose(2, 3);
  EXPECT_EQ(softmax_attention(turned, p.K, p.V, {}, p.options).O.to_vector<float>(), attended.O.to_vector<float>());
}

TEST(SoftmaxAttention, BitsDoNotDependOnTheNumberOfThreads) {
  Problem p = problem(1, 2, 700, 700, 16, 16, DType::f32);
  p.mask = padding(1, 700, 2);
  p.options.dropout = Dropout::at(0.1, Generator(5));
  const int before = threads();
  std::vector<std::vector<float>> first;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    const auto attended = softmax_attention(p.Q, p.K, p.V, p.mask, p.options);
    const auto grads = softmax_attention_backward(p.dO, p.Q, p.K, p.V, p.mask, attended, p.options);
    std::vector<std::vector<float>> bits;
    for (const Tensor& x : {attended.O, attended.logsumexp, grads.dQ, grads.dK, grads.dV}) {
      bits.push_back(x.to_vector<float>());
    }
    if (first.empty()) first = bits;
    EXPECT_EQ(first, bits) << count << " threads";
  }
  set_threads(before);
}

// For two keys with scores 0 and s (in units of log 2, exact in bf16), the sum of exponentials is 1 + 2^s.
TEST(SoftmaxAttention, ExponentialsInBf16AreRightToATwentiethOfItsRounding) {
  for (const auto& [dtype, error] : {std::pair{DType::f32, 3e-7}, {DType::bf16, 1.02e-4}}) {
    std::vector<float> scores;
    for (int i = 0; i < 256; ++i) scores.push_back(static_cast<float>(-i) / 32);
    const auto count = static_cast<int64_t>(scores.size());
    const Tensor q = Tensor::from(scores, {1, 1, count, 1}).cast(dtype);
    const Tensor k = Tensor::from<float>({0, 1}, {1, 1, 2, 1}).cast(dtype);
    SoftmaxAttentionOptions options;
    options.scale = std::log(2.0);
    const auto attended = softmax_attention(q, k, k, {}, options);
    const std::vector<double> lse = attended.logsumexp.cast(DType::f64).to_vector<double>();
    double largest = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double power = std::exp2(static_cast<double>(scores[i]));
      const double found = std::expm1(lse[i]);  // 2^s
      largest = std::max(largest, std::abs(found - power) / (1 + power));
      if (std::floor(scores[i]) == scores[i]) {
        EXPECT_NEAR(found, power, 3e-7) << scores[i];
      }
    }
    EXPECT_LE(largest, error) << name_of(dtype);
  }
}

TEST(SoftmaxAttention, EmptyBatchesAndLengthsAreAllowed) {
  for (const auto& [b, n, m] : {std::tuple<int64_t, int64_t, int64_t>{0, 3, 4}, {2, 0, 4}, {2, 3, 0}}) {
    check(problem(b, 2, n, m, 8, 8, DType::f32), 1e-6);
  }
}

TEST(SoftmaxAttention, RefusesWhatDoesNotFit) {
  const Problem p = problem(2, 2, 3, 4, 8, 8, DType::f32);
  EXPECT_THROW(softmax_attention(p.Q, p.K.slice(3, 0, 7), p.V, {}, p.options), Error);
  EXPECT_THROW(softmax_attention(p.Q, p.K, p.V.slice(2, 0, 3), {}, p.options), Error);
  EXPECT_THROW(softmax_attention(p.Q, p.K.cast(DType::f64), p.V, {}, p.options), Error);
  EXPECT_THROW(softmax_attention(p.Q, p.K, p.V, Tensor::zeros({2, 3}, DType::boolean), p.options), Error);
  EXPECT_THROW(softmax_attention(p.Q, p.K, p.V, Tensor::zeros({2, 4}), p.options), Error);
  const auto attended = softmax_attention(p.Q, p.K, p.V, {}, p.options);
  EXPECT_THROW(softmax_attention_backward(p.V, p.Q, p.K, p.V, {}, attended, p.options), Error);
}

}  // namespace
}  // namespace bochner
