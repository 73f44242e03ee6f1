// Every mechanism of the attention registry, on a card: outputs and gradients are those of the CPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/tape.h"
#include "engine/card.h"
#include "engine/ops/softmax_attention.h"
#include "engine/precision.h"
#include "engine/random.h"
#include "layers/attention/mechanism.h"
#include "tests/card.h"

namespace bochner {
namespace {

using testing_card::common_floor;
using testing_card::poison;
using testing_card::squared_error;

constexpr int64_t kHeads = 2;
constexpr int64_t kDim = 6;

class EveryMechanismOnACard : public testing::TestWithParam<size_t> {
 protected:
  const MechanismInfo& info() const { return mechanisms()[GetParam()]; }

  /// Output and the gradients of Q, K, V and all parameters.
  std::vector<std::vector<double>> run(Device device, DType dtype, int64_t length, bool causal, bool masked) const {
    Generator init(3);
    AttentionOptions options;
    options.features = 8;
    options.block = 4;
    options.summary = 1;
    options.convolution = 5;
    options.factor = 1;
    options.length = 1100;
    const auto mechanism = info().make({}, kHeads, kDim, options, init);
    mechanism->to(device, dtype);
    const Shape shape{2, kHeads, length, kDim};
    const auto values = [&](uint64_t seed) {
      Generator generator(seed);
      return normal(shape, generator, 0, 1, DType::f64).cast(dtype).to(device);
    };
    Mask mask;
    mask.causal = causal;
    if (masked) {
      std::vector<bool> real(static_cast<size_t>(2 * length), true);
      for (int64_t i = length / 2; i < length; ++i) real[static_cast<size_t>(length + i)] = false;
      mask.keys = Tensor::from<bool>(real, {2, length}).to(device);
    }
    if (!device.is_cpu()) poison();
    Tape tape;
    const std::vector<Variable> inputs = {tape.watch(values(4)), tape.watch(values(5)), tape.watch(values(6))};
    std::vector<Variable> wanted = inputs;
    for (const Parameter* parameter : mechanism->parameters()) wanted.push_back(tape.leaf(*parameter));
    Generator noise(11);
    Context context{noise, true};
    const Variable y = mechanism->forward(inputs[0], inputs[1], inputs[2], mask, context);
    std::vector<std::vector<double>> results = {y.value().to_vector<double>()};
    for (const Variable& gradient : tape.gradients({y}, {values(7)}, wanted)) {
      results.push_back(gradient.value().to_vector<double>());
    }
    return results;
  }
};

/// The error allowed in a type where the CPU's in f32 is `rounding`. Weights that may be negative have sums near 0 here
/// and there, which magnify rounding without bound: there another order of the same sums may cost a hundred times as
/// much.
double allowed(DType dtype, double rounding) {
  const double magnified = rounding > 1e-8 ? std::min(1e4 * rounding, 0.1) : 0;
  return dtype == DType::f32 ? std::max(1e-7, magnified) : std::max(1e-18, 4e-18 * magnified);
}

TEST_P(EveryMechanismOnACard, EqualsTheCpu) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t length : {1, 7, 65, 1023}) {
    for (const bool causal : {false, true}) {
      if (causal && !info().causal) continue;
      for (const bool masked : {false, true}) {
        const auto expected = run(Device::cpu(), DType::f64, length, causal, masked);
        const auto rounded = run(Device::cpu(), DType::f32, length, causal, masked);
        for (const DType dtype : {DType::f64, DType::f32}) {
          const auto found = run(Device::cuda(), dtype, length, causal, masked);
          ASSERT_EQ(found.size(), expected.size());
          const double floor = common_floor(expected);
          for (size_t i = 0; i < expected.size(); ++i) {
            // Where f32 alone decides differently (a hash), the CPU's f32 is what to compare with.
            double error = squared_error(found[i], expected[i], floor);
            if (dtype == DType::f32) error = std::min(error, squared_error(found[i], rounded[i], floor));
            EXPECT_LE(error, allowed(dtype, squared_error(rounded[i], expected[i], floor)))
                << info().name << " " << name_of(dtype) << ", length " << length << (causal ? ", causal" : "")
                << (masked ? ", masked" : "") << ", result " << i;
          }
        }
      }
    }
  }
}

TEST_P(EveryMechanismOnACard, WritesNothingOutsideItsTensors) {
  BOCHNER_NEEDS_CARD();
  const int64_t before = broken_card_guards();
  set_card_guards(true);
  for (const int64_t length : {7, 65}) {
    run(Device::cuda(), DType::f32, length, false, true);
    if (info().causal) run(Device::cuda(), DType::f32, length, true, true);
  }
  set_card_guards(false);
  EXPECT_EQ(broken_card_guards(), before);
}

TEST(SoftmaxAttentionOnACard, InBf16IsAsGoodAsTheCompositionInBf16) {
  BOCHNER_NEEDS_CARD();
  const auto rounded = [](const Tensor& x) { return x.cast(DType::bf16).cast(DType::f32); };
  for (const int64_t dim : {32, 64}) {
    for (const int64_t length : {1, 7, 130, 300}) {
      for (const bool causal : {false, true}) {
        for (const double p : {0.0, 0.3}) {
          const Shape shape{2, 2, length, dim};
          const auto values = [&](uint64_t seed) {
            Generator generator(seed);
            return normal(shape, generator, 0, 1, DType::f32);
          };
          const SoftmaxAttentionOptions options{0.5 / std::sqrt(static_cast<double>(dim)), causal,
                                                Dropout::at(p, Generator(3, 16))};
          std::vector<bool> real(static_cast<size_t>(2 * length), true);
          for (int64_t i = length / 2; i < length; ++i) real[static_cast<size_t>(length + i)] = false;
          const Tensor mask = Tensor::from<bool>(real, {2, length});
          const Tensor Q = values(1), K = values(2), V = values(3), dO = values(4);
          const auto run = [&](Device device, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g) {
            const Tensor keys = mask.to(device);
            const SoftmaxAttended y = softmax_attention(q.to(device), k.to(device), v.to(device), keys, options);
            const AttentionGradients d =
                softmax_attention_backward(g.to(device), q.to(device), k.to(device), v.to(device), keys, y, options);
            std::vector<std::vector<double>> results;
            for (const Tensor& t : {y.O, d.dQ, d.dK, d.dV}) results.push_back(t.to_vector<double>());
            return results;
          };
          const auto expected = run(Device::cpu(), Q, K, V, dO);
          // The least error of bf16: of the same inputs, rounded once.
          const auto inputs_rounded = run(Device::cpu(), rounded(Q), rounded(K), rounded(V), rounded(dO));
          poison();
          set_precision(Precision::bf16);
          const auto found = run(Device::cuda(), Q, K, V, dO);
          set_precision(Precision::f32);
          const double floor = common_floor(expected);
          for (size_t i = 0; i < found.size(); ++i) {
            const double least = std::max(squared_error(inputs_rounded[i], expected[i], floor), 1e-6);
            EXPECT_LE(squared_error(found[i], expected[i], floor), 16 * least)
                << "dim " << dim << ", length " << length << ", causal " << causal << ", dropout " << p << ", result "
                << i;
          }
        }
      }
    }
  }
}

std::string mechanism_name(const testing::TestParamInfo<size_t>& tested) {
  std::string name = mechanisms()[tested.param].name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryMechanismOnACard, testing::Range<size_t>(0, mechanisms().size()),
                         mechanism_name);

}  // namespace
}  // namespace bochner
