// Every op in the list, on a card: value and gradients equal those of the CPU in f64, in both precisions.
#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/tape.h"
#include "engine/card.h"
#include "tests/autograd/op_info.h"
#include "tests/card.h"

namespace bochner {
namespace {

using testing_card::poison;
using testing_card::squared_error;

/// The value of a sample and its gradients under a fixed projection, one after another.
std::vector<std::vector<double>> run(const Sample& sample, Device device, DType dtype) {
  Tape tape;
  std::vector<Variable> inputs;
  for (const Tensor& input : sample.inputs) {
    const Tensor moved = is_floating(input.dtype()) ? input.cast(dtype).to(device) : input.to(device);
    inputs.push_back(tape.watch(moved));
  }
  if (!device.is_cpu()) poison();
  const Variable y = sample.apply(inputs);
  const Tensor projection = sample_values(y.shape(), 5, -1, 1).cast(y.dtype()).to(device);
  std::vector<std::vector<double>> results = {y.value().to_vector<double>()};
  if (!is_floating(y.value().dtype()) || !y.tracked()) return results;
  for (const Variable& gradient : tape.gradients({y}, {projection}, inputs)) {
    results.push_back(gradient.value().to_vector<double>());
  }
  return results;
}

class EveryOpOnACard : public testing::TestWithParam<size_t> {
 protected:
  const OpInfo& op() const { return op_infos()[GetParam()]; }
};

TEST_P(EveryOpOnACard, EqualsTheCpu) {
  BOCHNER_NEEDS_CARD();
  for (const Sample& sample : op().samples) {
    if (sample.label.find("FastFood") != std::string::npos) continue;  // CPU only
    const auto expected = run(sample, Device::cpu(), DType::f64);
    const auto in_f32 = run(sample, Device::cpu(), DType::f32);
    for (const DType dtype : {DType::f64, DType::f32}) {
      const auto found = run(sample, Device::cuda(), dtype);
      ASSERT_EQ(found.size(), expected.size()) << sample.label;
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(found[i].size(), expected[i].size()) << sample.label << ", result " << i;
        // If the problem itself magnifies rounding errors, f32 may lose as much as on the CPU.
        const double allowed = std::max(1e-7, 10 * squared_error(in_f32[i], expected[i]));
        EXPECT_LE(squared_error(found[i], expected[i]), dtype == DType::f64 ? 1e-20 : allowed)
            << name_of(dtype) << " " << sample.label << ", result " << i;
      }
    }
  }
}

TEST_P(EveryOpOnACard, GivesEqualBytesTwice) {
  BOCHNER_NEEDS_CARD();
  for (const Sample& sample : op().samples) {
    if (sample.label.find("FastFood") != std::string::npos) continue;  // CPU only
    EXPECT_EQ(run(sample, Device::cuda(), DType::f32), run(sample, Device::cuda(), DType::f32)) << sample.label;
  }
}

TEST_P(EveryOpOnACard, WritesNothingOutsideItsTensors) {
  BOCHNER_NEEDS_CARD();
  const int64_t before = broken_card_guards();
  set_card_guards(true);
  for (const Sample& sample : op().samples) {
    if (sample.label.find("FastFood") == std::string::npos) run(sample, Device::cuda(), DType::f32);
  }
  set_card_guards(false);
  EXPECT_EQ(broken_card_guards(), before);
}

std::string op_name(const testing::TestParamInfo<size_t>& tested) { return op_infos()[tested.param].name; }

INSTANTIATE_TEST_SUITE_P(Ops, EveryOpOnACard, testing::Range<size_t>(0, op_infos().size()), op_name);

}  // namespace
}  // namespace bochner
