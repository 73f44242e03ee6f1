// Properties of both forms of kernel attention, bidirectional and causal.
#include <type_traits>

#include "engine/ops/features/functions.h"
#include "engine/parallel.h"
#include "engine/work.h"
#include "tests/engine/ops/attention/kernel_attention_oracle.h"

namespace bochner::testing_kernel_attention {
namespace {

TEST(KernelAttention, EqualsTheDefinitionForEveryMapAndOption) {
  uint64_t seed = 0;
  for (const FeatureMap& map : maps()) {
    for (const bool causal : {false, true}) {
      for (const bool renormalise : {true, false}) {
        for (const int64_t frequencies : {0, 16}) {
          ++seed;
          Problem p = problem({.frequencies = frequencies}, {map, 1, causal, renormalise, 1e-6}, DType::f64, seed);
          // Kernels that may be negative need a denominator away from 0, or they could not be compared.
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

TEST(KernelAttention, GradientsAgreeWithCentralDifferencesForEveryMap) {
  const int before = threads();
  set_threads(1);
  uint64_t seed = 100;
  for (FeatureMap map : maps()) {
    if (map.has_exponent() && !map.absolute_eps) map.eps = 0;
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

TEST(KernelAttention, ExponentsMayRiseSteeplyWithinAChunk) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool causal : {true, false}) {
      Problem p =
          problem({1, 1, 150, 150, 2, 3, 4}, {{.kind = Kind::positive, .eps = 1e-4}, 1, causal, true, 0}, dtype, 6);
      // The norm reduces the exponent by more than u adds, so small keys have the largest exponents.
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

// Many heads, so that the tiles of one are added up sequentially.
TEST(KernelAttention, ExponentsMayRiseFromTileToTile) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Problem p = problem({8, 8, 20, 200, 2, 3, 4}, {{.kind = Kind::positive, .eps = 1e-4}, 1, false, true, 0}, dtype, 6);
    visit_floating(dtype, "test", [&]<class T>(TypeTag<T>) {
      for (int64_t i = 0; i < p.K.size(); ++i) {
        if (i / 2 % 200 < 100) p.K.data<T>()[i] = T(8);  // far from 0: with small exponents
      }
    });
    check_forward(p, dtype == DType::f32 ? 1e-3 : 1e-9);
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

// The description of an attention is plain data; its tensors, including FastFood's permutation, are arguments.
static_assert(std::is_trivially_copyable_v<KernelAttentionSpec>);

TEST(FeatureFunctions, EveryLineOfTheListHasItsValueAndItsSlope) {
  for (const auto& [name, function] : kFeatureFunctions) {
    SCOPED_TRACE(name);
    const auto value = [f = function](double u) {
      return with_feature_function(f, [u](const auto& definition) { return definition.forward(u); });
    };
    for (const double u : {-3.5, -0.75, 0.25, 2.0}) {
      const double slope = with_feature_function(
          function, [u](const auto& definition) { return definition.derivative(u, definition.forward(u)); });
      EXPECT_NEAR(value(u), function_of(function, u), 1e-12);
      EXPECT_NEAR(slope, (function_of(function, u + 1e-5) - function_of(function, u - 1e-5)) / 2e-5, 1e-6);
    }
  }
}

struct WithFastFood {
  Problem p = problem({}, {maps()[0], 1, false, true, 0}, DType::f32, 2);  // tokens of 8 entries
  Tensor diagonals = Tensor::full({1, 6, 8}, 1, DType::f32);
  FastFoodRows rows{Tensor::from<int64_t>({7, 6, 5, 4, 3, 2, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7}, {2, 8}), 11};

  KernelAttentionResult attend() const { return kernel_attention(p.spec, p.Q, p.K, p.V, {diagonals, rows}, p.keys); }
};

TEST(KernelAttention, FastFoodTakesOnlyWhatFitsIt) {
  const KernelAttentionResult made = WithFastFood().attend();
  EXPECT_EQ(made.state.size(3), kernel_attention_state_size(11, made.O.size(3)));
  const auto refused = [&](auto change) {
    WithFastFood wrong;
    change(wrong);
    EXPECT_THROW(wrong.attend(), Error);
  };
  refused([](WithFastFood& w) { w.diagonals = Tensor::zeros({1, 5, 8}, DType::f32); });
  refused([](WithFastFood& w) { w.diagonals = Tensor::zeros({3, 6, 8}, DType::f32); });
  refused([](WithFastFood& w) { w.diagonals = w.diagonals.cast(DType::f64); });
  refused([](WithFastFood& w) { w.diagonals = Tensor(); });
  refused([](WithFastFood& w) { w.rows.count = 17; });
  refused([](WithFastFood& w) { w.rows.count = 0; });
  refused([](WithFastFood& w) { w.rows.permutation = Tensor(); });
  refused([](WithFastFood& w) { w.rows.permutation = w.rows.permutation.view({4, 4}); });
  refused([](WithFastFood& w) { w.rows.permutation = w.rows.permutation.cast(DType::f32); });
  refused([](WithFastFood& w) { w.rows.permutation = Tensor::full({2, 8}, 8, DType::i64); });
  refused([](WithFastFood& w) { w.rows.permutation = Tensor::full({2, 8}, -1, DType::i64); });
}

// Per token: two blocks of 3 diagonals of 8 and two transforms of 8 log2 8 additions; then phi V, or phi S.
TEST(KernelAttention, FastFoodCountsItsOwnWork) {
  const WithFastFood attention;
  const Problem& p = attention.p;
  work::start();
  attention.attend();
  const auto tokens = static_cast<double>(p.Q.size(0) * p.Q.size(1) * (p.Q.size(2) + p.K.size(2)));
  const double of_token = 2 * (2 * 3 * 8 + 11 * static_cast<double>(p.V.size(3))) + 2 * 2 * 8 * 3;
  EXPECT_EQ(work::stop().flops, tokens * of_token);
}

}  // namespace
}  // namespace bochner::testing_kernel_attention
