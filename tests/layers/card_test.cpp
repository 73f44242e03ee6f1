// Every mechanism of the attention registry on a card: outputs and gradients equal those of the CPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/tape.h"
#include "engine/card.h"
#include "engine/ops/binary.h"
#include "engine/ops/join.h"
#include "engine/random.h"
#include "layers/models/siren.h"
#include "tests/card.h"
#include "tests/layers/every_mechanism.h"

namespace bochner {
namespace {

using testing_card::common_floor;
using testing_card::poison;
using testing_card::squared_error;

class EveryMechanismOnACard : public testing::TestWithParam<size_t> {
 protected:
  const MechanismInfo& info() const { return mechanisms()[GetParam()]; }

  struct Case {
    int64_t length;
    bool causal, masked;
    int64_t batch = 2, heads = kHeads;
  };

  /// The output and the gradients of Q, K, V and all parameters. With `moved`, each element of Q, K, V and of the
  /// output's gradient is moved by about its rounding in f32, by random numbers with this seed.
  std::vector<std::vector<double>> run(Device device, DType dtype, const Case& of, uint64_t moved = 0) const {
    const int64_t length = of.length;
    Generator init(3);
    const MechanismOptions options = small(info().name, std::max<int64_t>(1100, length));
    const auto mechanism = make_mechanism({}, of.heads, kDim, options, init);
    mechanism->to(device, dtype);
    const Shape shape{of.batch, of.heads, length, kDim};
    const auto values = [&](uint64_t seed) {
      Generator generator(seed);
      const Tensor x = normal(shape, generator, 0, 1, DType::f64);
      if (moved == 0) return x.cast(dtype).to(device);
      Generator noise(100 * moved + seed);
      return (x + x * normal(shape, noise, 0, 0x1p-24, DType::f64)).cast(dtype).to(device);
    };
    Mask mask;
    mask.causal = of.causal;
    if (of.masked) {  // half of the last example
      std::vector<bool> real(static_cast<size_t>(of.batch * length), true);
      for (int64_t i = length / 2; i < length; ++i) real[static_cast<size_t>((of.batch - 1) * length + i)] = false;
      mask.keys = Tensor::from<bool>(real, {of.batch, length}).to(device);
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

  /// The squared error of each result in f32 on the CPU, the largest over several runs whose inputs differ by their
  /// rounding. With weights that may be negative, one or two rows in 1000 have a sum near 0, which magnifies rounding
  /// without bound: even in f64, such inputs move the gradients by as much. A single run may happen not to show it.
  std::vector<double> sensitivities(const Case& of, const std::vector<std::vector<double>>& expected,
                                    double floor) const {
    std::vector<double> most(expected.size(), 0);
    for (const uint64_t moved : {0, 1, 2, 3}) {
      const auto found = run(Device::cpu(), DType::f32, of, moved);
      for (size_t i = 0; i < found.size(); ++i) {
        most[i] = std::max(most[i], squared_error(found[i], expected[i], floor));
      }
    }
    return most;
  }

  void expect_equal(const Case& of, const std::vector<DType>& dtypes) const {
    const auto expected = run(Device::cpu(), DType::f64, of);
    const auto in_f32 = run(Device::cpu(), DType::f32, of);
    const double floor = common_floor(expected);
    for (const DType dtype : dtypes) {
      const auto found = run(Device::cuda(), dtype, of);
      ASSERT_EQ(found.size(), expected.size());
      std::vector<double> sensitive;  // used if an error is large
      for (size_t i = 0; i < expected.size(); ++i) {
        double error = squared_error(found[i], expected[i], floor);
        double allowed = 1e-18;
        if (dtype == DType::f32) {
          // If f32 by itself decides differently (a hash), compare with the CPU in f32.
          error = std::min(error, squared_error(found[i], in_f32[i], floor));
          allowed = 1e-7;
          if (error > allowed) {
            if (sensitive.empty()) sensitive = sensitivities(of, expected, floor);
            allowed = std::max(allowed, std::min(1000 * sensitive[i], 0.1));  // an error 30 times as large
          }
        }
        EXPECT_LE(error, allowed) << info().name << " " << name_of(dtype) << ", length " << of.length
                                  << (of.causal ? ", causal" : "") << (of.masked ? ", masked" : "") << ", result " << i;
      }
    }
  }
};

TEST_P(EveryMechanismOnACard, EqualsTheCpu) {
  BOCHNER_NEEDS_CARD();
  // sgn jumps: where omega . x is 0 up to rounding, f32 on another device may well have the other sign.
  const bool jumps = info().name == "performer-sgn";
  const std::vector<DType> types = jumps ? std::vector{DType::f64} : std::vector{DType::f64, DType::f32};
  for (const int64_t length : {1, 7, 65, 1023}) {
    for (const bool causal : {false, true}) {
      if (causal && !info().causal) continue;
      for (const bool masked : {false, true}) expect_equal({length, causal, masked}, types);
    }
  }
}

TEST_P(EveryMechanismOnACard, EqualsTheCpuOnALongSequence) {
  BOCHNER_NEEDS_CARD();
  const bool emulated = card_description().find("emulated") != std::string::npos;
  if (emulated && info().cost.find("L^2") != std::string::npos) {
    GTEST_SKIP() << "its time grows with the square of the length, too much for an emulated card";
  }
  if (emulated) {
    expect_equal({4097, info().causal, true, 1, 1}, {info().name == "performer-sgn" ? DType::f64 : DType::f32});
  } else {
    for (const bool causal : {false, true}) {
      if (causal && !info().causal) continue;
      expect_equal({4097, causal, true}, {info().name == "performer-sgn" ? DType::f64 : DType::f32});
    }
  }
}

TEST_P(EveryMechanismOnACard, WritesNothingOutsideItsTensors) {
  BOCHNER_NEEDS_CARD();
  const int64_t before = broken_card_guards();
  set_card_guards(true);
  for (const int64_t length : {7, 65}) {
    run(Device::cuda(), DType::f32, {length, false, true});
    if (info().causal) run(Device::cuda(), DType::f32, {length, true, true});
  }
  set_card_guards(false);
  EXPECT_EQ(broken_card_guards(), before);
}

/// A SIREN, plain and with SNNK layers, and its derivatives.
TEST(SirenOnACard, DerivativesAreThoseOfTheCpu) {
  BOCHNER_NEEDS_CARD();
  for (const std::string layer : {"", "sin", "relu"}) {
    SirenOptions options{.inputs = 2, .width = 16, .hidden = 2, .omega = 2};
    if (!layer.empty()) {
      options.snnk = SnnkOptions{.activation = layer, .features = 8, .scale_inputs = true, .damped = true};
    }
    const auto on = [&](Device device) {
      Generator init(3);
      Siren siren({}, options, init);
      siren.to(device, DType::f64);
      Generator points(4);
      const Tensor x = uniform({5, 2}, points, -1, 1, DType::f64).to(device);
      const FieldDerivatives found = field_derivatives([&](const Variable& at) { return siren.forward(at); }, x);
      return concat(std::vector<Tensor>{found.value, found.gradient.reshape({10}), found.laplacian}, 0)
          .to_vector<double>();
    };
    const std::vector<double> expected = on(Device::cpu());
    const std::vector<double> found = on(Device::cuda());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9) << layer << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryMechanismOnACard, testing::Range<size_t>(0, mechanisms().size()),
                         every_mechanism_name);

}  // namespace
}  // namespace bochner
