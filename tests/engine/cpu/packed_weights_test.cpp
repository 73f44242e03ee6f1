// Packed copies of weights: the same results whether or not they are kept; they are remade if the weights change, and
// gone with the weights.
#include "engine/cpu/parts/packed_weights.h"

#include <gtest/gtest.h>

#include <optional>

#include "engine/ops/copy.h"
#include "engine/ops/feed_forward.h"
#include "engine/ops/linear.h"
#include "engine/random.h"

namespace bochner {
namespace {

struct Layers {
  Generator noise{1};
  Tensor x;
  LinearWeights linear;
  FeedForwardWeights feed;

  explicit Layers(DType stored) : x(normal({100, 48}, noise).cast(stored)) {
    linear.w = normal({200, 48}, noise);
    linear.b = normal({200}, noise);
    feed.w1 = normal({300, 48}, noise);
    feed.b1 = normal({300}, noise);
    feed.w2 = normal({48, 300}, noise);
    feed.b2 = normal({48}, noise);
  }

  /// Everything that reads weights: both layers, forward and backward.
  std::vector<float> all() const {
    const LinearResult y = bochner::linear(x, linear);
    const LinearGradients dy = linear_backward(y.y, x, y, linear, {});
    const FeedForwardResult z = feed_forward(x, feed, {});
    const FeedForwardGradients dz = feed_forward_backward(z.y, x, z, feed, {});
    std::vector<float> values;
    for (const Tensor& one : {y.y, dy.dx, dy.weights.w, z.y, dz.dx, dz.weights.w1, dz.weights.w2}) {
      const std::vector<float> part = one.cast(DType::f32).to_vector<float>();
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }
};

class PackedWeights : public testing::TestWithParam<DType> {};

TEST_P(PackedWeights, ResultsAreTheSameKeptOrNot) {
  const Layers layers(GetParam());
  const std::vector<float> once = layers.all();
  const KeepPackedWeights keep;
  EXPECT_EQ(layers.all(), once);
  // For the linear layer, W^T forward and W backward; for the feed-forward block, W1^T and W2^T forward, W2 and W1
  // backward.
  EXPECT_EQ(cpu::kept_packed_weights(), 6);
  EXPECT_EQ(layers.all(), once);
  EXPECT_EQ(cpu::kept_packed_weights(), 6);
}

TEST_P(PackedWeights, AreMadeAnewWhereWeightsWereOverwritten) {
  const Layers layers(GetParam());
  const KeepPackedWeights keep;
  const std::vector<float> before = layers.all();
  const int64_t kept = cpu::kept_packed_weights();
  for (const Tensor& w : {layers.linear.w, layers.feed.w1, layers.feed.w2}) w.fill_(0.5);
  const std::vector<float> after = layers.all();
  EXPECT_NE(after, before);
  EXPECT_EQ(cpu::kept_packed_weights(), kept);
  const Layers others(GetParam());
  for (const Tensor& w : {others.linear.w, others.feed.w1, others.feed.w2}) w.fill_(0.5);
  EXPECT_EQ(others.all(), after);
}

INSTANTIATE_TEST_SUITE_P(Types, PackedWeights, testing::Values(DType::f32, DType::bf16),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST(KeepPackedWeights, HoldsNoWeightsThatNobodyElseHas) {
  const Tensor x = Tensor::full({4, 32}, 1);
  const KeepPackedWeights keep;
  for (int i = 0; i < 10; ++i) {
    LinearWeights of_one_call;
    of_one_call.w = Tensor::full({32, 32}, 1);
    linear(x, of_one_call);
    EXPECT_EQ(cpu::kept_packed_weights(), 1);
  }
}

TEST(KeepPackedWeights, WeightsThatShareAStorageAreToldApart) {
  Generator noise(1);
  const Tensor x = normal({4, 32}, noise);
  const KeepPackedWeights keep;
  for (int i = 0; i < 3; ++i) {
    const Tensor both = normal({2, 32, 32}, noise);  // gone at the end of the pass
    LinearWeights first, second;
    first.w = both.select(0, 0);
    second.w = both.select(0, 1);
    const std::vector<float> of_first = linear(x, first).y.to_vector<float>();
    EXPECT_NE(linear(x, second).y.to_vector<float>(), of_first);
    EXPECT_EQ(cpu::kept_packed_weights(), 2);
    second.w.fill_(1);  // of the same storage, so both are packed again
    EXPECT_EQ(linear(x, first).y.to_vector<float>(), of_first);
    EXPECT_EQ(linear(x, second).y.to_vector<float>().at(0), linear(x, second).y.to_vector<float>().at(31));
    EXPECT_EQ(cpu::kept_packed_weights(), 2);
  }
}

TEST(KeepPackedWeights, EndsWithTheOutermost) {
  const Layers layers(DType::f32);
  std::optional<KeepPackedWeights> outer(std::in_place);
  {
    const KeepPackedWeights inner;
    layers.all();
  }
  EXPECT_GT(cpu::kept_packed_weights(), 0);
  outer.reset();
  EXPECT_EQ(cpu::kept_packed_weights(), 0);
  layers.all();
  EXPECT_EQ(cpu::kept_packed_weights(), 0);
}

}  // namespace
}  // namespace bochner
