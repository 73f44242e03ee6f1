// What mechanisms do with extreme inputs: each is computed as documented, or refused with a sentence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/tape.h"
#include "engine/ops/join.h"
#include "engine/ops/unary.h"
#include "tests/layers/every_mechanism.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

Tensor values(const Shape& shape, uint64_t seed, double scale = 1) {
  Generator generator(seed);
  return normal(shape, generator, 0, scale, DType::f64);
}

std::unique_ptr<Mechanism> made(const std::string& name, int64_t dim) {
  Generator init(3);
  auto mechanism = make_mechanism({}, kHeads, dim, small(name, 64), init);
  mechanism->to(Device::cpu(), DType::f64);
  return mechanism;
}

Tensor attend(Mechanism& mechanism, const Tensor& Q, const Tensor& K, const Tensor& V, const Mask& mask) {
  Generator noise(11);
  Context context{noise, false};
  return mechanism.forward(Q, K, V, mask, context).value().contiguous();
}

bool all_finite(const Tensor& tensor) {
  const std::vector<double> entries = tensor.to_vector<double>();
  return std::all_of(entries.begin(), entries.end(), [](double x) { return std::isfinite(x); });
}

/// O, then the gradients of Q, K and V, in training.
std::vector<Tensor> with_gradients(Mechanism& mechanism, const std::vector<Tensor>& inputs, const Mask& mask) {
  Generator noise(11);
  Context context{noise, true};
  Tape tape;
  const std::vector<Variable> in = {tape.watch(inputs[0]), tape.watch(inputs[1]), tape.watch(inputs[2])};
  const Variable O = mechanism.forward(in[0], in[1], in[2], mask, context);
  std::vector<Tensor> found = {O.value()};
  for (const Variable& gradient : tape.gradients({O}, {values(O.shape(), 9)}, in)) found.push_back(gradient.value());
  return found;
}

TEST(BadInput, AHeadOfNoNumbersIsRefusedInOneWayByAllThatHaveFrequencies) {
  for (const char* const version : {"paper", "released"}) {
    for (const char* const name : {"performer-hyp", "gmm-rks", "gmm-prf", "fastfood-rks", "generative-prf"}) {
      MechanismOptions options = small(name, 64).set_known({{"as", version}});
      Generator init(3);
      const std::string message = test::message_of([&] { make_mechanism({}, kHeads, 0, options, init); });
      EXPECT_NE(message.find("head size 0; at least 1 is needed"), std::string::npos) << name << ": " << message;
    }
  }
}

TEST(BadInput, ALengthThatNoBlockDividesIsThatOfAPaddedOne) {
  for (const MechanismInfo& info : mechanisms()) {
    const auto mechanism = made(info.name, 6);
    for (const int64_t length : {1, 3, 5, 11}) {
      const int64_t whole = (length + 3) / 4 * 4;
      const Tensor Q = values({1, kHeads, whole, 6}, 21), K = values({1, kHeads, whole, 6}, 22, 2),
                   V = values({1, kHeads, whole, 6}, 23);
      std::vector<uint8_t> real(static_cast<size_t>(whole), 0);
      std::fill_n(real.begin(), length, uint8_t{1});
      const auto cut = [&](const Tensor& x) { return x.slice(2, 0, length).contiguous(); };
      for (const bool causal : {false, true}) {
        if (causal && !info.causal) continue;
        const Mask mask{Tensor::from(real, {1, whole}).cast(DType::boolean), causal};
        const auto padded = cut(attend(*mechanism, Q, K, V, mask)).to_vector<double>();
        const auto alone = attend(*mechanism, cut(Q), cut(K), cut(V), {{}, causal}).to_vector<double>();
        for (size_t i = 0; i < alone.size(); ++i) {
          ASSERT_NEAR(padded[i], alone[i], 1e-9) << info.name << ", length " << length << (causal ? ", causal" : "");
        }
      }
    }
  }
}

TEST(BadInput, FastFoodPadsAHeadToAPowerOfTwoByZeros) {
  const double scale = std::pow(8.0 / 6.0, 0.25);  // changes x 8^(-1/4) to x 6^(-1/4)
  for (const char* name : {"fastfood-rks", "fastfood-prf", "fastfood-prf-s", "fastfood-rks-fixed"}) {
    const auto six = made(name, 6);
    const auto eight = made(name, 8);
    eight->load_state(six->state());
    const Shape shape{2, kHeads, 7, 6};
    const Tensor Q = values(shape, 1), K = values(shape, 2), V = values(shape, 3);
    const auto wide = [&](const Tensor& x) { return pad(x * scale, {0, 0, 0, 0}, {0, 0, 0, 2}); };
    const auto expected = attend(*eight, wide(Q), wide(K), V, {}).to_vector<double>();
    const auto found = attend(*six, Q, K, V, {}).to_vector<double>();
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-9) << name;
  }
}

TEST(BadInput, WhereNoKeyIsRealNeitherOutputNorGradientIsNaN) {
  const Shape shape{1, kHeads, 5, 6};
  const Mask mask{Tensor::zeros({1, 5}, DType::boolean), false};
  for (const MechanismInfo& info : mechanisms()) {
    const auto mechanism = made(info.name, 6);
    const std::vector<Tensor> found =
        with_gradients(*mechanism, {values(shape, 1), values(shape, 2), values(shape, 3)}, mask);
    for (const Tensor& tensor : found) EXPECT_TRUE(all_finite(tensor)) << info.name;
  }
}

TEST(BadInput, EntriesOfTenThousandLeaveOutputAndGradientsFinite) {
  const Shape shape{1, kHeads, 20, 6};
  for (const MechanismInfo& info : mechanisms()) {
    for (const bool causal : {false, true}) {
      if (causal && !info.causal) continue;
      const auto mechanism = made(info.name, 6);
      mechanism->to(Device::cpu(), DType::f32);
      const auto large = [&](uint64_t seed) { return values(shape, seed, 1e4).cast(DType::f32); };
      Generator noise(11);
      Context context{noise, true};
      Tape tape;
      const std::vector<Variable> in = {tape.watch(large(61)), tape.watch(large(62)), tape.watch(large(63))};
      const Variable O = mechanism->forward(in[0], in[1], in[2], {{}, causal}, context);
      EXPECT_TRUE(all_finite(O.value())) << info.name << (causal ? " causal" : "");
      const Gradients gradients = tape.gradients({O}, {values(O.shape(), 9).cast(DType::f32)}, in);
      for (const Variable& gradient : gradients) {
        EXPECT_TRUE(all_finite(gradient.value())) << info.name << (causal ? " causal, a gradient" : ", a gradient");
      }
    }
  }
}

TEST(BadInput, QueriesOfAnotherLengthAreAttendedOrRefused) {
  for (const MechanismInfo& info : mechanisms()) {
    const auto mechanism = made(info.name, 6);
    const Tensor Q = values({1, kHeads, 5, 6}, 1), K = values({1, kHeads, 9, 6}, 2), V = values({1, kHeads, 9, 6}, 3);
    try {
      EXPECT_EQ(attend(*mechanism, Q, K, V, {}).shape(), Q.shape()) << info.name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("5 queries and 9 keys"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace bochner
