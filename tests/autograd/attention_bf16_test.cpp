// Attention in bf16, on the CPU and on tensor cores: its error is at most twice that of the plain composition in bf16,
// for all sizes, masks and maps, and hidden keys change nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/card.h"
#include "engine/cuda/attention/softmax/ways.h"
#include "engine/precision.h"
#include "engine/random.h"
#include "tests/autograd/attention_in_bf16.h"
#include "tests/card.h"

namespace bochner {
namespace {

using testing_card::common_floor;
using testing_card::poison;
using testing_card::squared_error;
using Kind = FeatureMap::Kind;
using Function = FeatureMap::Function;
using Results = std::vector<std::vector<double>>;
using Inputs = std::vector<Tensor>;
/// Takes Q, K, V and, optionally, Omega.
using Attention = std::function<Variable(const std::vector<Variable>&, const Tensor& keys)>;

Tensor values(uint64_t seed, const Shape& shape) {
  Generator generator(seed);
  return normal(shape, generator, 0, 1, DType::f32);
}

/// (2, length): of the second example, the second half is padding.
Tensor padding(int64_t length) {
  std::vector<bool> real(static_cast<size_t>(2 * length), true);
  for (int64_t i = (length + 1) / 2; i < length; ++i) real[static_cast<size_t>(length + i)] = false;
  return Tensor::from<bool>(real, {2, length});
}

/// The output, and the gradients of the inputs. Q, K and V are activations, Omega is a parameter.
Results run(const Attention& attention, const Inputs& inputs, const Tensor& keys, const Tensor& dO, Device device,
            DType activations = DType::f32, DType parameters = DType::f32) {
  Tape tape;
  std::vector<Variable> watched;
  for (size_t i = 0; i < inputs.size(); ++i) {
    watched.push_back(tape.watch(inputs[i].cast(i < 3 ? activations : parameters).to(device)));
  }
  const Variable O = attention(watched, keys.to(device));
  Results results = {O.value().to_vector<double>()};
  for (const Variable& d : tape.gradients({O}, {dO.cast(activations).to(device)}, watched)) {
    results.push_back(d.value().to_vector<double>());
  }
  return results;
}

/// Where attention runs, and the type of its activations.
struct Way {
  Device device;
  DType activations;
  bool by_groups = true;  ///< by products of four warps, if the card has them
  std::string str() const {
    return fmt::format("{} with {}{}", device.str(), name_of(activations), by_groups ? "" : ", warp by warp");
  }
};
/// The CPU, and a card if there is one.
std::vector<Way> ways() {
  std::vector<Way> found{{Device::cpu(), DType::bf16}};
  if (testing_card::missing().empty()) {
    found.push_back({Device::cuda(), DType::f32, false});
    found.push_back({Device::cuda(), DType::bf16});
  }
  return found;
}

/// With factors in bf16.
Results run_in_bf16(const Attention& attention, const Inputs& inputs, const Tensor& keys, const Tensor& dO,
                    const Way& way = {Device::cuda(), DType::f32}) {
  if (way.device.is_cpu()) return run(attention, inputs, keys, dO, way.device, way.activations);
  poison();
  set_precision(Precision::bf16);
  const cuda::WithSoftmaxWays ways({.by_groups = way.by_groups});
  Results results = run(attention, inputs, keys, dO, way.device, way.activations);
  set_precision(Precision::f32);
  return results;
}

bool is_zero(const std::vector<double>& x) {
  return std::all_of(x.begin(), x.end(), [](double value) { return std::abs(value) < 1e-12; });
}

/// The error of one rounding to bf16, as a norm relative to that of the normal numbers rounded. For activations in
/// bf16, inputs, O and the result are stored in bf16: three roundings, whereas the composition, on f32 activations, may
/// have one.
constexpr double kRounding = 1.66e-3;
/// The same for a gradient that is exactly 0, such as that of the only key's score: P (dO V - dO O) scale, where O,
/// which backward reads, is rounded. With the scale 0.5 / sqrt(dim) of these tests that is kRounding / 2 next to the
/// other results, and the floor sqrt(1e-3) of the largest of them: 2.6e-2 on average, and somewhat more for the few
/// tokens of a test.
constexpr double kOfZero = 3e-2;

void expect_at_most_twice(const Attention& fused, const Attention& composed, const Inputs& inputs, const Tensor& keys,
                          const Tensor& dO, const std::string& what) {
  const Results expected = run(fused, inputs, keys, dO, Device::cpu(), DType::f64, DType::f64);
  const Results plain = run(composed, inputs, keys, dO, Device::cpu());
  const double floor = common_floor(expected);
  for (const Way& way : ways()) {
    const Results found = run_in_bf16(fused, inputs, keys, dO, way);
    EXPECT_EQ(run_in_bf16(fused, inputs, keys, dO, way), found) << what << ": two runs differ";
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const double error = std::sqrt(squared_error(found[i], expected[i], floor));
      const double of_plain = std::sqrt(squared_error(plain[i], expected[i], floor));
      const double least = way.activations == DType::f32 ? 2e-3 : is_zero(expected[i]) ? kOfZero : 3 * kRounding;
      EXPECT_LE(error, std::max(2 * of_plain, least)) << what << " on " << way.str() << ", result " << i;
    }
  }
}

TEST(SoftmaxAttentionBf16, InBf16IsAsGoodAsTheCompositionInBf16) {
  for (const int64_t dim : {32, 64}) {
    for (const int64_t length : {1, 7, 130, 450}) {
      for (const bool causal : {false, true}) {
        for (const double p : {0.0, 0.3, 1.0}) {
          const Shape shape{2, 2, length, dim};
          const SoftmaxAttentionOptions options{0.5 / std::sqrt(static_cast<double>(dim)), causal,
                                                Dropout::at(p, Generator(3, 17))};
          const auto attention = [&options](auto attend) {
            return [&options, attend](const std::vector<Variable>& x, const Tensor& keys) {
              return attend(options, x[0], x[1], x[2], keys);
            };
          };
          expect_at_most_twice(attention([](auto&&... args) { return softmax_attention(args...); }),
                               attention([](auto&&... args) { return in_bf16::softmax_attention(args...); }),
                               {values(1, shape), values(2, shape), values(3, shape)}, padding(length),
                               values(4, shape),
                               fmt::format("dim {}, length {}, causal {}, dropout {}", dim, length, causal, p));
        }
      }
    }
  }
}

TEST(SoftmaxAttentionBf16, InBf16LaterKeysMayWeighFarMore) {
  const Shape shape{2, 2, 300, 64};
  Tensor growth = Tensor::empty({300, 1});
  for (int64_t i = 0; i < 300; ++i) growth.data<float>()[i] = static_cast<float>(1 + i / 20);  // scores of up to 500
  for (const bool causal : {false, true}) {
    const SoftmaxAttentionOptions options{1.0, causal, {}};
    expect_at_most_twice([&](const std::vector<Variable>& x,
                             const Tensor& keys) { return softmax_attention(options, x[0], x[1], x[2], keys); },
                         [&](const std::vector<Variable>& x, const Tensor& keys) {
                           return in_bf16::softmax_attention(options, x[0], x[1], x[2], keys);
                         },
                         {values(1, shape), values(2, shape) * growth, values(3, shape)}, padding(300),
                         values(4, shape), fmt::format("causal {}", causal));
  }
}

TEST(SoftmaxAttentionBf16, InBf16WritesNothingOutsideItsTensors) {
  BOCHNER_NEEDS_CARD();
  const int64_t before = broken_card_guards();
  set_card_guards(true);
  const Shape shape{2, 2, 130, 32};
  for (const double p : {0.0, 0.3}) {
    const SoftmaxAttentionOptions options{0.1, false, Dropout::at(p, Generator(3, 16))};
    run_in_bf16([&](const std::vector<Variable>& x,
                    const Tensor& keys) { return softmax_attention(options, x[0], x[1], x[2], keys); },
                {values(1, shape), values(2, shape), values(3, shape)}, padding(130), values(4, shape));
  }
  set_card_guards(false);
  EXPECT_EQ(broken_card_guards(), before);
}

/// x, in memory where rows begin at odd multiples of 2 bytes.
Tensor between_words(const Tensor& x) {
  Shape wider = x.shape();
  wider[3] += 1;
  const Tensor view = Tensor::zeros(wider, x.dtype(), x.device()).slice(3, 1, wider[3]);
  view.copy_(x);
  return view;
}

TEST(SoftmaxAttentionBf16, InBf16ReadsViewsOfAnyAlignment) {
  BOCHNER_NEEDS_CARD();
  constexpr int64_t kLength = 200;
  const Tensor joint = values(1, {2, kLength, 4, 2, 64});
  for (const bool causal : {false, true}) {
    for (const double p : {0.0, 0.3}) {
      const SoftmaxAttentionOptions options{0.1, causal, Dropout::at(p, Generator(3, 5))};
      const auto results = [&](bool aligned, float hidden) {
        // The first example's keys from 30 to 140 are hidden, including a whole tile.
        std::vector<bool> real(2 * kLength, true);
        for (size_t i = 30; i < 140; ++i) real[i] = false;
        const Tensor filled = joint.clone();
        filled.slice(0, 0, 1).slice(1, 30, 140).slice(2, 1, 3).fill_(hidden);
        std::vector<Tensor> of;
        for (int64_t i = 0; i < 4; ++i) {
          const Tensor x = filled.cast(DType::bf16).to(Device::cuda()).slice(2, i, i + 1).view({2, kLength, 2, 64});
          of.push_back(aligned ? x.transpose(1, 2) : between_words(x.transpose(1, 2)));
        }
        const Tensor mask = Tensor::from<bool>(real, {2, kLength}).to(Device::cuda());
        poison();
        const SoftmaxAttended y = softmax_attention(of[0], of[1], of[2], mask, options);
        const AttentionGradients d = softmax_attention_backward(of[3], of[0], of[1], of[2], mask, y, options);
        Results found;
        for (const Tensor& x : {y.O, y.logsumexp, d.dQ, d.dK, d.dV}) found.push_back(x.to_vector<double>());
        return found;
      };
      const Results expected = results(true, 1);
      for (const auto& values : expected) {
        for (const double value : values) ASSERT_TRUE(std::isfinite(value));
      }
      EXPECT_EQ(results(false, 1), expected);
      EXPECT_EQ(results(true, std::numeric_limits<float>::quiet_NaN()), expected);
    }
  }
}

struct Case {
  const char* name;
  FeatureMap map;
  bool renormalise;
};

class KernelAttentionBf16 : public testing::TestWithParam<Case> {
 protected:
  struct Sizes {
    int64_t dim, queries, keys, frequencies, heads_of_omega;  ///< without heads: no Omega
  };

  static Inputs inputs(const Sizes& s) {
    Inputs result = {values(1, {2, 2, s.queries, s.dim}), values(2, {2, 2, s.keys, s.dim}),
                     values(3, {2, 2, s.keys, s.dim})};
    if (s.heads_of_omega > 0) result.push_back(values(4, {s.heads_of_omega, s.frequencies, s.dim}));
    return result;
  }
  static KernelAttentionSpec spec(int64_t dim, bool causal) {
    KernelAttentionSpec result;
    result.map = GetParam().map;
    result.renormalise = GetParam().renormalise;
    result.causal = causal;
    result.scale = 0.35 / std::sqrt(std::sqrt(static_cast<double>(dim)));
    return result;
  }
  static Attention fused(const KernelAttentionSpec& spec) {
    return [spec](const std::vector<Variable>& x, const Tensor& keys) {
      return kernel_attention(spec, x[0], x[1], x[2], x.size() > 3 ? x[3] : Variable(), keys);
    };
  }
  static Attention composed(const KernelAttentionSpec& spec) {
    return [spec](const std::vector<Variable>& x, const Tensor& keys) {
      return in_bf16::kernel_attention(spec, x[0], x[1], x[2], x.size() > 3 ? x[3] : Variable(), keys);
    };
  }
  static void check(const Sizes& s, bool causal) {
    const KernelAttentionSpec attention = spec(s.dim, causal);
    expect_at_most_twice(fused(attention), composed(attention), inputs(s), padding(s.keys),
                         values(5, {2, 2, s.queries, s.dim}),
                         fmt::format("{} causal {}, dim {}, {} queries, {} keys, {} frequencies", GetParam().name,
                                     causal, s.dim, s.queries, s.keys, s.frequencies));
  }
};

TEST_P(KernelAttentionBf16, InBf16IsAsGoodAsTheCompositionInBf16) {
  for (const Sizes& sizes : {Sizes{32, 1, 9, 40, 1}, Sizes{32, 7, 70, 24, 2}, Sizes{64, 130, 65, 128, 1},
                             Sizes{64, 300, 300, 72, 2}, Sizes{32, 65, 64, 0, 0}, Sizes{64, 20, 129, 0, 0}}) {
    check(sizes, false);
  }
}

TEST_P(KernelAttentionBf16, CausalInBf16IsAsGoodAsTheCompositionInBf16) {
  for (const Sizes& sizes : {Sizes{32, 1, 9, 40, 1}, Sizes{64, 130, 65, 128, 1}, Sizes{64, 200, 200, 72, 2},
                             Sizes{32, 20, 129, 0, 0}, Sizes{32, 1100, 1090, 24, 2}}) {
    check(sizes, true);
  }
}

TEST_P(KernelAttentionBf16, CausalInBf16SeesNothingOfLaterTokens) {
  constexpr int64_t kBefore = 70;
  const Inputs from = inputs({32, 140, 140, 24, 1});
  Inputs other = from;
  for (size_t i = 0; i < 3; ++i) {
    other[i] = other[i].clone();
    other[i].slice(2, kBefore, 140).fill_(3);
  }
  for (const Way& way : ways()) {
    const auto outputs = [&](const Inputs& of) {
      const Results all = run_in_bf16(fused(spec(32, true)), of, padding(140), values(5, {2, 2, 140, 32}), way);
      return Tensor::from<double>(all[0], {2, 2, 140, 32}).slice(2, 0, kBefore).contiguous().to_vector<double>();
    };
    EXPECT_EQ(outputs(other), outputs(from)) << way.str();
  }
}

TEST_P(KernelAttentionBf16, InBf16WritesNothingOutsideItsTensors) {
  BOCHNER_NEEDS_CARD();
  const int64_t before = broken_card_guards();
  set_card_guards(true);
  for (const DType activations : {DType::f32, DType::bf16}) {
    for (const bool causal : {false, true}) {
      run_in_bf16(fused(spec(32, causal)), inputs({32, 65, 7, 24, 1}), padding(7), values(5, {2, 2, 65, 32}),
                  {Device::cuda(), activations});
    }
  }
  set_card_guards(false);
  EXPECT_EQ(broken_card_guards(), before);
}

TEST_P(KernelAttentionBf16, InBf16ReadsTokensWhereTheyAre) {
  BOCHNER_NEEDS_CARD();
  constexpr int64_t kLength = 70;
  constexpr int64_t kDim = 32;
  const auto bf16 = [](const Tensor& x) { return x.cast(DType::bf16).to(Device::cuda()); };
  const Tensor joint = bf16(values(1, {2, kLength, 3, 2, kDim}));
  for (const int64_t of_keys : {1, 2}) {  // hidden ones are not read
    joint.select(2, of_keys).slice(0, 1, 2).slice(1, (kLength + 1) / 2, kLength).fill_(NAN);
  }
  const Tensor mask = padding(kLength).to(Device::cuda());
  const Tensor Omega = values(4, {1, 24, kDim}).to(Device::cuda());
  const Tensor dO = bf16(values(5, {2, 2, kLength, kDim}));
  for (const bool causal : {false, true}) {
    const KernelAttentionSpec attention = spec(kDim, causal);
    /// Results for one copy of each token: in place, alone, or where rows begin at no multiple of 16 bytes.
    const auto results = [&](const std::function<Tensor(const Tensor&)>& place) {
      const auto part = [&](int64_t i) { return place(joint.select(2, i).transpose(1, 2)); };
      const Tensor q = part(0), k = part(1), v = part(2);
      const KernelAttentionResult y = kernel_attention(attention, q, k, v, {Omega, {}}, mask);
      const KernelAttentionGradients g =
          kernel_attention_backward(attention, place(dO), q, k, v, {Omega, {}}, mask, y, true);
      Results all;
      for (const Tensor& x : {y.O, g.dQ, g.dK, g.dV, g.dOmega}) all.push_back(x.to_vector<double>());
      return all;
    };
    const Results in_place = results([](const Tensor& x) { return x; });
    for (const auto& result : in_place) {
      for (const double value : result) ASSERT_TRUE(std::isfinite(value));
    }
    EXPECT_EQ(results([](const Tensor& x) { return x.clone(); }), in_place);
    EXPECT_EQ(results([&](const Tensor& x) {
                const Tensor room = Tensor::empty({2, 2, kLength, kDim + 3}, DType::bf16, Device::cuda());
                const Tensor view = room.slice(3, 1, kDim + 1);
                view.copy_(x);
                return view;
              }),
              in_place);
  }
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

Case with_absolute_eps() {
  Case tested = case_of("positive_with_absolute_eps", Kind::positive);
  tested.map.eps = 0.3;
  tested.map.absolute_eps = true;
  return tested;
}

INSTANTIATE_TEST_SUITE_P(Maps, KernelAttentionBf16,
                         testing::Values(case_of("positive", Kind::positive), case_of("hyperbolic", Kind::hyperbolic),
                                         case_of("trigonometric", Kind::trigonometric),
                                         case_of("softmax_trigonometric", Kind::softmax_trigonometric),
                                         case_of("relu", Kind::elementwise),
                                         case_of("elu", Kind::elementwise, 0, true, Function::elu_plus_one),
                                         case_of("positive_with_constant", Kind::positive, 0.5),
                                         case_of("trigonometric_not_divided", Kind::trigonometric, 0.5, false),
                                         with_absolute_eps()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace bochner
