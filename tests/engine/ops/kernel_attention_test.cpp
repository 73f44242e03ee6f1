#include "engine/ops/kernel_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "engine/ops/copy.h"
#include "engine/parallel.h"
#include "engine/random.h"

namespace bochner {
namespace {

using Kind = FeatureMap::Kind;
using Function = FeatureMap::Function;
using Values = std::vector<double>;

struct Problem {
  Tensor Q, K, V, Omega, dO, keys;
  KernelAttentionSpec spec;

  KernelAttentionResult attend() const { return kernel_attention(spec, Q, K, V, Omega, keys); }
  KernelAttentionGradients gradients(const KernelAttentionResult& forward) const {
    return kernel_attention_backward(spec, dO, Q, K, V, Omega, keys, forward, true);
  }
};

double function_of(Function f, double u) {
  switch (f) {
    case Function::elu_plus_one:
      return u > 0 ? u + 1 : std::exp(u);
    case Function::relu:
      return std::max(u, 0.0);
    case Function::sigmoid:
      return 1 / (1 + std::exp(-u));
    case Function::exp:
      return std::exp(u);
    case Function::abs:
      return std::abs(u);
    case Function::gelu:
      return 0.5 * u * (1 + std::erf(u / std::numbers::sqrt2));
    case Function::cos:
      return std::cos(u);
    case Function::tanh:
      return std::tanh(u);
    case Function::identity:
      return u;
  }
  return 0;
}

/// Exponents of one token: of each feature (positive, hyperbolic) or one for all.
Values exponents_of(const FeatureMap& map, const Values& u, double norm) {
  Values e;
  if (map.kind == Kind::softmax_trigonometric) return {norm / 2};
  for (const double value : u) e.push_back(value - map.norm_factor * norm);
  if (map.kind == Kind::hyperbolic) {
    for (const double value : u) e.push_back(-value - map.norm_factor * norm);
  }
  return e;
}

Values features_of(const FeatureMap& map, const Values& u, double norm, double shift) {
  Values phi;
  const Values e = map.has_exponent() ? exponents_of(map, u, norm) : Values();
  if (map.kind == Kind::positive || map.kind == Kind::hyperbolic) {
    for (const double value : e) phi.push_back(std::exp(value - shift) + map.eps);
  } else if (map.kind == Kind::elementwise) {
    for (const double value : u) phi.push_back(function_of(map.function, value) + map.eps);
  } else {
    const double h = map.has_exponent() ? std::exp(e[0] - shift) : 1;
    for (const double value : u) phi.push_back(h * std::cos(value));
    for (const double value : u) phi.push_back(h * std::sin(value));
  }
  if (map.constant != 0) phi.push_back(map.constant);
  return phi;
}

/// O by the definition, in double precision: every weight is computed for itself.
Values reference(const Problem& p) {
  const auto Q = p.Q.to_vector<double>();
  const auto K = p.K.to_vector<double>();
  const auto V = p.V.to_vector<double>();
  const auto Omega = p.Omega.defined() ? p.Omega.to_vector<double>() : Values();
  const auto mask = p.keys.defined() ? p.keys.to_vector<double>() : Values();
  const auto B = p.Q.size(0), H = p.Q.size(1), N = p.Q.size(2), M = p.K.size(2), D = p.Q.size(3), E = p.V.size(3);
  Values O(static_cast<size_t>(B * H * N * E));
  const auto token = [&](const Values& x, int64_t row, int64_t h, double& norm) {
    Values u;
    norm = 0;
    const double* at = &x[static_cast<size_t>(row * D)];
    for (int64_t d = 0; d < D; ++d) norm += p.spec.scale * at[d] * p.spec.scale * at[d];
    if (Omega.empty()) {
      for (int64_t d = 0; d < D; ++d) u.push_back(p.spec.scale * at[d]);
      return u;
    }
    const int64_t rows = p.Omega.size(1);
    for (int64_t m = 0; m < rows; ++m) {
      double sum = 0;
      const double* w = &Omega[static_cast<size_t>(((p.Omega.size(0) == 1 ? 0 : h) * rows + m) * D)];
      for (int64_t d = 0; d < D; ++d) sum += p.spec.scale * at[d] * w[d];
      u.push_back(sum);
    }
    return u;
  };
  for (int64_t bh = 0; bh < B * H; ++bh) {
    std::vector<Values> u(static_cast<size_t>(M));
    Values norms(u.size());
    Values tops(u.size());
    const auto real = [&](int64_t j) { return mask.empty() || mask[static_cast<size_t>(bh / H * M + j)] != 0; };
    for (int64_t j = 0; j < M; ++j) {
      const auto at = static_cast<size_t>(j);
      u[at] = token(K, bh * M + j, bh % H, norms[at]);
      const Values e = p.spec.map.has_exponent() ? exponents_of(p.spec.map, u[at], norms[at]) : Values{0};
      tops[at] = *std::max_element(e.begin(), e.end());
    }
    for (int64_t i = 0; i < N; ++i) {
      double norm = 0;
      const Values uq = token(Q, bh * N + i, bh % H, norm);
      double query_shift = 0;
      double key_shift = -std::numeric_limits<double>::infinity();
      const auto visible = [&](int64_t j) { return real(j) && !(p.spec.causal && j > i); };
      for (int64_t j = 0; j < M; ++j)
        key_shift = visible(j) ? std::max(key_shift, tops[static_cast<size_t>(j)]) : key_shift;
      if (p.spec.shifts()) {
        const Values e = exponents_of(p.spec.map, uq, norm);
        query_shift = *std::max_element(e.begin(), e.end());
      } else {
        key_shift = 0;
      }
      const Values phi_q = features_of(p.spec.map, uq, norm, query_shift);
      double total = 0;
      double* o = &O[static_cast<size_t>((bh * N + i) * E)];
      for (int64_t j = 0; j < M; ++j) {
        if (!visible(j)) continue;
        const Values phi_k =
            features_of(p.spec.map, u[static_cast<size_t>(j)], norms[static_cast<size_t>(j)], key_shift);
        double weight = 0;
        for (size_t m = 0; m < phi_q.size(); ++m) weight += phi_q[m] * phi_k[m];
        total += weight;
        for (int64_t d = 0; d < E; ++d) o[d] += weight * V[static_cast<size_t>((bh * M + j) * E + d)];
      }
      if (!p.spec.renormalise) continue;
      total += p.spec.denominator_eps;
      for (int64_t d = 0; d < E; ++d) o[d] = total != 0 ? o[d] / total : 0;
    }
  }
  return O;
}

struct Sizes {
  int64_t batch = 2, heads = 2, queries = 70, keys = 70, dim = 8, value_dim = 8, frequencies = 16;
};

Problem problem(const Sizes& s, const KernelAttentionSpec& spec, DType dtype, uint64_t seed) {
  Generator generator(seed);
  Problem p;
  p.spec = spec;
  p.Q = normal({s.batch, s.heads, s.queries, s.dim}, generator, 0, 1, dtype);
  p.K = normal({s.batch, s.heads, s.keys, s.dim}, generator, 0, 1, dtype);
  p.V = normal({s.batch, s.heads, s.keys, s.value_dim}, generator, 0, 1, dtype);
  p.dO = normal({s.batch, s.heads, s.queries, s.value_dim}, generator, 0, 1, dtype);
  if (s.frequencies > 0) p.Omega = normal({seed % 2 == 0 ? 1 : s.heads, s.frequencies, s.dim}, generator, 0, 1, dtype);
  p.spec.scale = std::pow(static_cast<double>(s.dim), -0.25);
  return p;
}

/// Example 0 has holes anywhere, example 1 ends early.
Tensor padding(int64_t b, int64_t keys, uint64_t seed) {
  Generator generator(seed);
  const Tensor mask = bernoulli({b, keys}, 0.6, generator, DType::boolean);
  for (int64_t i = 1; i < b; ++i) {
    fill(mask.select(0, i), 1);
    if (i == 1) fill(mask.select(0, i).slice(0, keys - keys / 3, keys), 0);
  }
  return mask;
}

const std::vector<FeatureMap>& maps() {
  static const std::vector<FeatureMap> list = [] {
    std::vector<FeatureMap> all = {{.kind = Kind::positive, .eps = 1e-3},
                                   {.kind = Kind::positive, .norm_factor = 1, .eps = 0},
                                   {.kind = Kind::positive, .eps = 0.1, .constant = 0.5},
                                   {.kind = Kind::hyperbolic, .eps = 1e-3},
                                   {.kind = Kind::trigonometric, .eps = 0, .constant = 4},
                                   {.kind = Kind::softmax_trigonometric, .eps = 0.3},
                                   {.kind = Kind::softmax_trigonometric, .eps = 0, .constant = 5}};
    for (int f = 0; f <= static_cast<int>(Function::identity); ++f) {
      const auto function = static_cast<Function>(f);
      const bool signed_values = function == Function::identity || function == Function::tanh ||
                                 function == Function::cos || function == Function::gelu;
      all.push_back({.kind = Kind::elementwise, .function = function, .eps = signed_values ? 4.0 : 1e-3});
    }
    return all;
  }();
  return list;
}

/// A denominator near 0 says nothing about the kernel: then the sums of both are compared through a wide tolerance.
void check_forward(const Problem& p, double tolerance) {
  const Values expected = reference(p);
  const auto found = p.attend().O.to_vector<double>();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "O at " << i;
  }
}

TEST(KernelAttention, EqualsTheDefinitionForEveryMapAndOption) {
  uint64_t seed = 0;
  for (const FeatureMap& map : maps()) {
    for (const bool causal : {false, true}) {
      for (const bool renormalise : {true, false}) {
        for (const int64_t frequencies : {0, 16}) {
          ++seed;
          Problem p = problem({.frequencies = frequencies}, {map, 1, causal, renormalise, 1e-6}, DType::f64, seed);
          // Kernels that may be negative need a denominator away from 0 to be compared at all.
          if (map.kind == Kind::softmax_trigonometric && map.constant == 0) p.spec.denominator_eps = 40;
          if (seed % 3 == 0) p.keys = padding(2, 70, seed);
          SCOPED_TRACE(fmt::format("map {}, function {}, causal {}, renormalise {}, {} frequencies",
                                   static_cast<int>(map.kind), static_cast<int>(map.function), causal, renormalise,
                                   frequencies));
          check_forward(p, 1e-10);
        }
      }
    }
  }
}

TEST(KernelAttention, EqualsTheDefinitionForAllLengthsAndSizes) {
  uint64_t seed = 0;
  for (const int64_t queries : {1, 7, 63, 64, 65, 130}) {
    for (const int64_t keys : {1, 64, 130}) {
      for (const auto& [dim, frequencies] : {std::pair<int64_t, int64_t>{1, 5}, {8, 1}, {17, 64}, {32, 0}, {64, 130}}) {
        ++seed;
        const DType dtype = seed % 3 == 0 ? DType::f32 : DType::f64;
        const FeatureMap& map = maps()[seed % 2 == 0 ? 0 : 7];
        Problem p = problem({1, 2, queries, keys, dim, seed % 5 == 0 ? dim + 3 : dim, frequencies},
                            {map, 1, seed % 4 == 1, true, 0}, dtype, seed);
        SCOPED_TRACE(fmt::format("{} queries, {} keys, dim {}, {} frequencies, {}", queries, keys, dim, frequencies,
                                 name_of(dtype)));
        check_forward(p, dtype == DType::f32 ? 2e-4 : 1e-11);
      }
    }
  }
}

TEST(KernelAttention, CausalStateIsCarriedAcrossSegments) {
  for (const FeatureMap& map : {maps()[0], maps()[7]}) {
    Problem p = problem({1, 1, 2100, 2100, 4, 4, 6}, {map, 1, true, true, 0}, DType::f64, 8);
    p.keys = padding(1, 2100, 4);
    check_forward(p, 1e-10);
  }
}

/// f(x) = <O, dO> against the gradients, by central differences. Shifts cancel where eps is 0, and are no part of the
/// gradient then.
void check_gradients(const Problem& p, int64_t step) {
  const auto grads = p.gradients(p.attend());
  // Smooth maps take large steps of fourth order, which lose fewer digits.
  const bool kinks = p.spec.map.kind == Kind::elementwise &&
                     (p.spec.map.function == Function::relu || p.spec.map.function == Function::abs ||
                      p.spec.map.function == Function::elu_plus_one);
  const auto loss = [&] {
    const auto O = p.attend().O.to_vector<double>();
    const auto dO = p.dO.to_vector<double>();
    double sum = 0;
    for (size_t i = 0; i < O.size(); ++i) sum += O[i] * dO[i];
    return sum;
  };
  const std::pair<const char*, std::pair<Tensor, Tensor>> all[] = {
      {"dQ", {p.Q, grads.dQ}}, {"dK", {p.K, grads.dK}}, {"dV", {p.V, grads.dV}}, {"dOmega", {p.Omega, grads.dOmega}}};
  for (const auto& [name, pair] : all) {
    const auto& [x, dx] = pair;
    if (!x.defined()) continue;
    const auto found = dx.to_vector<double>();
    for (int64_t i = 0; i < x.size(); i += step) {
      double& at = x.data<double>()[i];
      const double value = at;
      const auto loss_at = [&](double change) {
        at = value + change;
        const double result = loss();
        at = value;
        return result;
      };
      const auto difference = [&](double h) { return (loss_at(h) - loss_at(-h)) / (2 * h); };
      const double expected = kinks ? difference(1e-5) : (4 * difference(1e-3) - difference(2e-3)) / 3;
      const double g = found[static_cast<size_t>(i)];
      ASSERT_NEAR(expected, g, 1e-7 * std::max(1.0, std::abs(g))) << name << " at " << i;
    }
  }
}

TEST(KernelAttention, GradientsAgreeWithCentralDifferencesForEveryMap) {
  const int before = threads();
  set_threads(1);
  uint64_t seed = 100;
  for (FeatureMap map : maps()) {
    if (map.has_exponent()) map.eps = 0;
    for (const bool causal : {false, true}) {
      for (const bool renormalise : {true, false}) {
        ++seed;
        Problem p =
            problem({1, 2, 70, 67, 3, 2, seed % 3 == 0 ? 0 : 5}, {map, 1, causal, renormalise, 0}, DType::f64, seed);
        if (map.kind == Kind::softmax_trigonometric) {
          if (renormalise && map.constant == 0) continue;  // near 0 / 0
          p.spec.scale *= 0.3;
        }
        if (seed % 2 == 0) p.keys = padding(1, 67, seed);
        SCOPED_TRACE(fmt::format("map {}, function {}, causal {}, renormalise {}", static_cast<int>(map.kind),
                                 static_cast<int>(map.function), causal, renormalise));
        check_gradients(p, 29);
      }
    }
  }
  set_threads(before);
}

TEST(KernelAttention, QueriesWithoutKeysGetZerosAndNoGradient) {
  for (const bool causal : {false, true}) {
    for (const FeatureMap& map : {maps()[0], maps()[7]}) {
      Problem p = problem({}, {map, 1, causal, true, 0}, DType::f32, 2);
      p.keys = Tensor::zeros({2, 70}, DType::boolean);
      fill(p.keys.slice(0, 1, 2).slice(1, 10, 70), 1);  // example 0 has no key, example 1 none before key 10
      check_forward(p, 1e-4);
      const auto forward = p.attend();
      for (const float value : forward.O.select(0, 0).to_vector<float>()) ASSERT_EQ(value, 0);
      const auto grads = p.gradients(forward);
      for (const Tensor& g : {grads.dQ, grads.dK, grads.dV}) {
        for (const float value : g.select(0, 0).to_vector<float>()) ASSERT_EQ(value, 0);
      }
      for (const float value : grads.dOmega.to_vector<float>()) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(KernelAttention, PaddedKeysAreNeverRead) {
  for (const bool causal : {false, true}) {
    Problem p = problem({}, {maps()[0], 1, causal, true, 0}, DType::f32, 3);
    p.keys = padding(2, 70, 5);
    const auto before = p.attend();
    const auto grads_before = p.gradients(before);
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t j = 0; j < 70; ++j) {
        if (p.keys.select(0, b).select(0, j).item() != 0) continue;
        fill(p.K.select(0, b).slice(1, j, j + 1), std::nan(""));
        fill(p.V.select(0, b).slice(1, j, j + 1), std::nan(""));
      }
    }
    const auto after = p.attend();
    const auto grads = p.gradients(after);
    EXPECT_EQ(before.O.to_vector<float>(), after.O.to_vector<float>());
    EXPECT_EQ(grads_before.dQ.to_vector<float>(), grads.dQ.to_vector<float>());
    EXPECT_EQ(grads_before.dK.to_vector<float>(), grads.dK.to_vector<float>());
    EXPECT_EQ(grads_before.dV.to_vector<float>(), grads.dV.to_vector<float>());
    EXPECT_EQ(grads_before.dOmega.to_vector<float>(), grads.dOmega.to_vector<float>());
  }
}

TEST(KernelAttention, LaterTokensLeaveNoTraceInEarlierOnes) {
  Problem p =
      problem({1, 1, 200, 200, 8, 8, 16}, {{.kind = Kind::positive, .eps = 1e-3}, 1, true, true, 1e-6}, DType::f64, 4);
  const auto before = p.attend().O.slice(2, 0, 100).to_vector<double>();
  for (int64_t i = 0; i < 8; ++i) fill(p.K.slice(2, 100, 200).select(3, i), i == 0 ? 30 : 0);  // huge features
  fill(p.V.slice(2, 100, 200), 1e9);
  const auto after = p.attend().O.slice(2, 0, 100).to_vector<double>();
  for (size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(after[i], before[i], 1e-11);
}

TEST(KernelAttention, ExponentsMayRiseSteeplyWithinAChunk) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool causal : {true, false}) {
      Problem p =
          problem({1, 1, 150, 150, 2, 3, 4}, {{.kind = Kind::positive, .eps = 1e-4}, 1, causal, true, 0}, dtype, 6);
      // The norm takes more from the exponent than u adds, so small keys have the largest exponents.
      visit_floating(dtype, "test", [&]<class T>(TypeTag<T>) {
        for (int64_t i = 0; i < 150; ++i) {
          for (int64_t d = 0; d < 2; ++d) p.K.data<T>()[2 * i + d] *= static_cast<T>(40.0 / static_cast<double>(i + 1));
        }
      });
      check_forward(p, dtype == DType::f32 ? 1e-3 : 1e-9);
      const auto grads = p.gradients(p.attend());
      for (const Tensor& g : {grads.dQ, grads.dK, grads.dV, grads.dOmega}) {
        for (const double value : g.to_vector<double>()) ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
}

TEST(KernelAttention, HugeInputsStayFinite) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool causal : {false, true}) {
      for (const FeatureMap& map : {maps()[0], maps()[3], maps()[7]}) {
        Problem p = problem({1, 2, 130, 130, 32, 32, 40}, {map, 1, causal, true, 1e-6}, dtype, 7);
        for (const Tensor& x : {p.Q, p.K, p.V}) {
          visit_floating(dtype, "test", [&]<class T>(TypeTag<T>) {
            for (int64_t i = 0; i < x.size(); ++i) x.data<T>()[i] *= T(1e4);
          });
        }
        const auto forward = p.attend();
        const auto grads = p.gradients(forward);
        for (const Tensor& x : {forward.O, grads.dQ, grads.dK, grads.dV, grads.dOmega}) {
          for (const double value : x.to_vector<double>()) ASSERT_TRUE(std::isfinite(value));
        }
      }
    }
  }
}

TEST(KernelAttention, NotANumberIsNotHidden) {
  for (const bool causal : {false, true}) {
    Problem p = problem({1, 1, 70, 70, 8, 8, 16}, {maps()[0], 1, causal, true, 0}, DType::f32, 9);
    fill(p.K.slice(2, 0, 1), std::nan(""));
    for (const float value : p.attend().O.to_vector<float>()) ASSERT_TRUE(std::isnan(value));
  }
}

TEST(KernelAttention, ReadsViewsOfAJointProjectionAndWritesItsGradient) {
  Generator generator(3);
  const Tensor joint = normal({2, 70, 3, 2, 8}, generator);
  for (const bool causal : {false, true}) {
    Problem p = problem({}, {maps()[0], 1, causal, true, 0}, DType::f32, 10);
    p.Q = joint.select(2, 0).transpose(1, 2);
    p.K = joint.select(2, 1).transpose(1, 2);
    p.V = joint.select(2, 2).transpose(1, 2);
    check_forward(p, 1e-4);
    const auto grads = p.gradients(p.attend());
    EXPECT_TRUE(grads.dQ.shares_storage(grads.dV));
    Problem dense = p;
    for (Tensor* x : {&dense.Q, &dense.K, &dense.V}) *x = x->clone();
    const auto expected = dense.gradients(dense.attend());
    EXPECT_EQ(grads.dQ.to_vector<float>(), expected.dQ.to_vector<float>());
    EXPECT_EQ(grads.dK.to_vector<float>(), expected.dK.to_vector<float>());
    EXPECT_EQ(grads.dV.to_vector<float>(), expected.dV.to_vector<float>());
  }
}

TEST(KernelAttention, BitsDoNotDependOnTheNumberOfThreads) {
  const int before = threads();
  for (const bool causal : {false, true}) {
    Problem p = problem({1, 2, 700, 700, 16, 16, 40}, {maps()[0], 1, causal, true, 0}, DType::f32, 12);
    p.keys = padding(1, 700, 2);
    std::vector<std::vector<float>> first;
    for (const int count : {1, 2, 3}) {
      set_threads(count);
      const auto forward = p.attend();
      const auto grads = p.gradients(forward);
      std::vector<std::vector<float>> bits;
      for (const Tensor& x : {forward.O, grads.dQ, grads.dK, grads.dV, grads.dOmega}) {
        bits.push_back(x.to_vector<float>());
      }
      if (first.empty()) first = bits;
      EXPECT_EQ(first, bits) << count << " threads";
    }
  }
  set_threads(before);
}

TEST(KernelAttention, EmptyBatchesAndLengthsAreAllowed) {
  for (const bool causal : {false, true}) {
    for (const auto& [b, n, m] : {std::tuple<int64_t, int64_t, int64_t>{0, 3, 4}, {2, 0, 4}, {2, 3, 0}}) {
      Problem p = problem({b, 2, n, m, 8, 8, 5}, {maps()[0], 1, causal, true, 0}, DType::f32, 1);
      check_forward(p, 1e-5);
      const auto grads = p.gradients(p.attend());
      for (const Tensor& g : {grads.dQ, grads.dK, grads.dV, grads.dOmega}) {
        for (const float value : g.to_vector<float>()) ASSERT_EQ(value, n == 0 || m == 0 || b == 0 ? 0 : value);
      }
    }
  }
}

TEST(KernelAttention, RefusesWhatDoesNotFit) {
  const Problem p = problem({}, {maps()[0], 1, false, true, 0}, DType::f32, 2);
  const auto refused = [&](auto change) {
    Problem wrong = p;
    change(wrong);
    EXPECT_THROW(wrong.attend(), Error);
  };
  refused([](Problem& w) { w.K = w.K.slice(3, 0, 7); });
  refused([](Problem& w) { w.V = w.V.slice(2, 0, 3); });
  refused([](Problem& w) { w.V = w.V.cast(DType::f64); });
  refused([](Problem& w) { w.Omega = w.Omega.cast(DType::f64); });
  refused([](Problem& w) { w.Omega = Tensor::zeros({3, 16, 8}); });
  refused([](Problem& w) { w.Omega = Tensor::zeros({1, 16, 7}); });
  refused([](Problem& w) { w.Omega = Tensor::zeros({1, 0, 8}); });
  refused([](Problem& w) { w.keys = Tensor::zeros({2, 69}, DType::boolean); });
  EXPECT_THROW(kernel_attention_backward(p.spec, p.dO.slice(2, 0, 3), p.Q, p.K, p.V, p.Omega, {}, p.attend(), true),
               Error);
}

}  // namespace
}  // namespace bochner
