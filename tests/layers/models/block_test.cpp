#include "layers/models/block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/fused/feed_forward.h"
#include "autograd/tape.h"
#include "engine/random.h"

namespace bochner {
namespace {

void expect_close(const Tensor& actual, const Tensor& expected, size_t which) {
  const auto a = actual.to_vector<double>();
  const auto b = expected.to_vector<double>();
  ASSERT_EQ(a.size(), b.size()) << which;
  double largest = 0;
  for (const double value : b) largest = std::max(largest, std::abs(value));
  ASSERT_GT(largest, 0) << which;
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5 * largest) << which << ", element " << i;
}

// Wide networks on the CPU keep their hidden units, and compute one product after another instead of using the fused
// op.
TEST(FeedForward, ComputesWhatTheFusedOpDoesWhereItKeepsHiddenUnits) {
  constexpr int64_t kDim = 260;
  constexpr int64_t kHidden = 24;
  constexpr int64_t kRows = 2 * kDim + 3;  // not so few that narrow networks would keep theirs
  const BlockOptions options{.dim = kDim, .hidden = kHidden, .dropout = 0.2, .hidden_dropout = 0.1};
  Generator init(1);
  Generator data(2);
  const FeedForward network({}, options, init);
  const LayerNorm norm({}, kDim, options.norm_eps);
  const Tensor input = normal({kRows, kDim}, data);
  const Tensor dy = normal({kRows, kDim}, data);
  /// y and the gradients of x, both weights and both biases
  const auto all_of = [&](const auto& output_of) {
    Tape tape;
    const Variable x = tape.watch(input);
    Generator noise(3);
    const FeedForwardVariables weights{network.in().weight,  network.in().bias_or_none(),
                                       network.out().weight, network.out().bias_or_none(),
                                       norm.weight,          norm.bias};
    const Variable y = output_of(x, weights, noise);
    const Gradients found = tape.gradients({y}, {Variable(dy)}, {x, weights.w1, weights.b1, weights.w2, weights.b2});
    std::vector<Tensor> all{y.value()};
    for (const Variable& each : found) all.push_back(each.value());
    return all;
  };

  const auto kept = all_of([&](const Variable& x, const FeedForwardVariables&, Generator& noise) {
    Context context{noise, true};
    return network.forward(x, &norm, context);
  });
  const auto fused = all_of([&](const Variable& x, const FeedForwardVariables& weights, Generator& noise) {
    FeedForwardOptions here{.activation = options.activation, .eps = norm.eps()};
    here.inner = Dropout::draw(options.hidden_dropout, kRows * kHidden, noise);
    here.outer = Dropout::draw(options.dropout, kRows * kDim, noise);
    return feed_forward(x, weights, here);
  });
  ASSERT_EQ(kept.size(), fused.size());
  for (size_t i = 0; i < kept.size(); ++i) expect_close(kept[i], fused[i], i);
}

TEST(FeedForward, OfSnnkFeaturesDropsInTrainingAlone) {
  const auto of = [&](bool training, uint64_t seed) {
    Generator init(1), noise(seed);
    TransformerBlock block({}, {.dim = 8, .hidden = 8, .dropout = 0.5}, init);
    block.replace_feed_forward({.activation = "relu", .features = 8}, init);
    Context context{noise, training};
    return block.forward(normal({1, 3, 8}, init), {}, context).value().to_vector<float>();
  };
  EXPECT_EQ(of(false, 1), of(false, 2));
  EXPECT_NE(of(true, 1), of(true, 2));
}

}  // namespace
}  // namespace bochner
