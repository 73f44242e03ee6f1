// Every mechanism of the attention registry, on a card: outputs and gradients are those of the CPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/tape.h"
#include "layers/attention/mechanism.h"
#include "tests/card.h"

namespace bochner {
namespace {

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
    const auto mechanism = info().make({}, kHeads, kDim, {.features = 8}, init);
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

TEST_P(EveryMechanismOnACard, EqualsTheCpu) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t length : {1, 7, 65, 1023}) {
    for (const bool causal : {false, true}) {
      if (causal && !info().causal) continue;
      for (const bool masked : {false, true}) {
        const auto expected = run(Device::cpu(), DType::f64, length, causal, masked);
        for (const DType dtype : {DType::f64, DType::f32}) {
          const auto found = run(Device::cuda(), dtype, length, causal, masked);
          ASSERT_EQ(found.size(), expected.size());
          for (size_t i = 0; i < expected.size(); ++i) {
            EXPECT_LE(squared_error(found[i], expected[i]), dtype == DType::f64 ? 1e-18 : 1e-7)
                << info().name << " " << name_of(dtype) << ", length " << length << (causal ? ", causal" : "")
                << (masked ? ", masked" : "") << ", result " << i;
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
