// Kernel attention on tensor cores: as good as bf16 allows, whatever the map, the sizes and the mask.
#include "engine/ops/kernel_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/card.h"
#include "engine/precision.h"
#include "engine/random.h"
#include "tests/card.h"

namespace bochner {
namespace {

using testing_card::common_floor;
using testing_card::poison;
using testing_card::squared_error;
using Kind = FeatureMap::Kind;
using Function = FeatureMap::Function;

struct Case {
  const char* name;
  FeatureMap map;
  bool renormalise;
};

class CardKernelAttention : public testing::TestWithParam<Case> {
 protected:
  struct Inputs {
    Tensor Q, K, V, Omega, keys, dO;
  };

  static Inputs inputs(int64_t dim, int64_t queries, int64_t keys, int64_t frequencies, int64_t heads_of_omega) {
    const auto values = [](uint64_t seed, const Shape& shape) {
      Generator generator(seed);
      return normal(shape, generator, 0, 1, DType::f32);
    };
    std::vector<bool> real(static_cast<size_t>(2 * keys), true);
    for (int64_t i = (keys + 1) / 2; i < keys; ++i) real[static_cast<size_t>(keys + i)] = false;
    return {values(1, {2, 2, queries, dim}),
            values(2, {2, 2, keys, dim}),
            values(3, {2, 2, keys, dim}),
            heads_of_omega == 0 ? Tensor() : values(4, {heads_of_omega, frequencies, dim}),
            Tensor::from<bool>(real, {2, keys}),
            values(5, {2, 2, queries, dim})};
  }

  std::vector<std::vector<double>> run(Device device, const Inputs& from, bool causal) const {
    const auto there = [&](const Tensor& x) { return x.defined() ? x.to(device) : x; };
    KernelAttentionSpec spec;
    spec.map = GetParam().map;
    spec.renormalise = GetParam().renormalise;
    spec.causal = causal;
    spec.scale = 0.35 / std::sqrt(std::sqrt(static_cast<double>(from.Q.size(3))));
    const Tensor Q = there(from.Q), K = there(from.K), V = there(from.V), Omega = there(from.Omega);
    const Tensor keys = there(from.keys);
    const KernelAttentionResult y = kernel_attention(spec, Q, K, V, Omega, keys);
    const auto d = kernel_attention_backward(spec, there(from.dO), Q, K, V, Omega, keys, y, Omega.defined());
    std::vector<std::vector<double>> results;
    for (const Tensor& t : {y.O, d.dQ, d.dK, d.dV, d.dOmega}) {
      if (t.defined()) results.push_back(t.to_vector<double>());
    }
    return results;
  }

  static Inputs rounded(const Inputs& from) {
    const auto round = [](const Tensor& x) { return x.defined() ? x.cast(DType::bf16).cast(DType::f32) : x; };
    return {round(from.Q), round(from.K), round(from.V), round(from.Omega), from.keys, round(from.dO)};
  }

  struct Sizes {
    int64_t dim, queries, keys, frequencies, heads_of_omega;
  };
  void expect_little_loss(const Sizes& sizes, bool causal, double times) const {
    const Inputs from = inputs(sizes.dim, sizes.queries, sizes.keys, sizes.frequencies, sizes.heads_of_omega);
    const auto expected = run(Device::cpu(), from, causal);
    const auto least = run(Device::cpu(), rounded(from), causal);
    poison();
    set_precision(Precision::bf16);
    const auto found = run(Device::cuda(), from, causal);
    EXPECT_EQ(run(Device::cuda(), from, causal), found) << "two runs differ";
    set_precision(Precision::f32);
    ASSERT_EQ(found.size(), expected.size());
    const double floor = common_floor(expected);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_LE(squared_error(found[i], expected[i], floor),
                times * std::max(squared_error(least[i], expected[i], floor), 1e-6))
          << "dim " << sizes.dim << ", " << sizes.queries << " queries, " << sizes.keys << " keys, "
          << sizes.frequencies << " frequencies, result " << i;
    }
  }
};

TEST_P(CardKernelAttention, InBf16LosesWhatRoundingInputsLoses) {
  BOCHNER_NEEDS_CARD();
  for (const Sizes& sizes : {Sizes{32, 1, 9, 40, 1}, Sizes{32, 7, 70, 24, 2}, Sizes{64, 130, 65, 128, 1},
                             Sizes{64, 300, 300, 72, 2}, Sizes{32, 65, 64, 0, 0}, Sizes{64, 20, 129, 0, 0}}) {
    expect_little_loss(sizes, false, 16);
  }
}

TEST_P(CardKernelAttention, CausalInBf16LosesWhatRoundingInputsLoses) {
  BOCHNER_NEEDS_CARD();
  for (const Sizes& sizes : {Sizes{32, 1, 9, 40, 1}, Sizes{64, 130, 65, 128, 1}, Sizes{64, 200, 200, 72, 2},
                             Sizes{32, 20, 129, 0, 0}, Sizes{32, 1100, 1090, 24, 2}}) {
    // The first queries see few keys, whose weights cancel in the gradient where features differ little.
    expect_little_loss(sizes, true, sizes.frequencies == 0 ? 100 : 16);
  }
}

TEST_P(CardKernelAttention, CausalInBf16SeesNothingOfLaterTokens) {
  BOCHNER_NEEDS_CARD();
  constexpr int64_t kBefore = 70;
  const Inputs from = inputs(32, 140, 140, 24, 1);
  Inputs other = from;
  for (Tensor* x : {&other.Q, &other.K, &other.V}) {
    *x = x->clone();
    x->slice(2, kBefore, 140).fill_(3);
  }
  set_precision(Precision::bf16);
  const auto outputs = [&](const Inputs& of) {
    const Tensor O = Tensor::from<double>(run(Device::cuda(), of, true)[0], {2, 2, 140, 32});
    return O.slice(2, 0, kBefore).contiguous().to_vector<double>();
  };
  EXPECT_EQ(outputs(other), outputs(from));
  set_precision(Precision::f32);
}

TEST_P(CardKernelAttention, InBf16WritesNothingOutsideItsTensors) {
  BOCHNER_NEEDS_CARD();
  const int64_t before = broken_card_guards();
  set_card_guards(true);
  set_precision(Precision::bf16);
  for (const bool causal : {false, true}) run(Device::cuda(), inputs(32, 65, 7, 24, 1), causal);
  set_precision(Precision::f32);
  set_card_guards(false);
  EXPECT_EQ(broken_card_guards(), before);
}

Case case_of(const char* name, Kind kind, double constant = 0, bool renormalise = true,
             Function function = Function::relu) {
  FeatureMap map;
  map.kind = kind;
  map.function = function;
  map.constant = constant;
  map.eps = kind == Kind::elementwise ? 1e-3 : 1e-6;
  return {name, map, renormalise};
}

INSTANTIATE_TEST_SUITE_P(Maps, CardKernelAttention,
                         testing::Values(case_of("positive", Kind::positive), case_of("hyperbolic", Kind::hyperbolic),
                                         case_of("trigonometric", Kind::trigonometric),
                                         case_of("softmax_trigonometric", Kind::softmax_trigonometric),
                                         case_of("relu", Kind::elementwise),
                                         case_of("elu", Kind::elementwise, 0, true, Function::elu_plus_one),
                                         case_of("positive_with_constant", Kind::positive, 0.5),
                                         case_of("trigonometric_not_divided", Kind::trigonometric, 0.5, false)),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace bochner
