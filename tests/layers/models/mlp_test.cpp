// The multi-layer perceptron and the SNNK layer in its middle.
#include "layers/models/mlp.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace bochner {
namespace {

MlpOptions options_of(SnnkStart start, int64_t features = 32) {
  MlpOptions options{.inputs = 6, .hidden = {24, 20}, .outputs = 3};
  options.snnk = SnnkOptions{.activation = "relu", .features = features, .orthogonal = true, .scale_inputs = true};
  options.snnk_start = start;
  return options;
}

Tensor snnk_weight(const MlpOptions& options, uint64_t seed) {
  Generator init(seed);
  return Mlp({}, options, init).snnk_weights().at(0)->value.clone();
}

TEST(Mlp, SnnkWeightsStartAsPsiOrSpread) {
  const Tensor psi = snnk_weight(options_of(SnnkStart::psi), 1);
  EXPECT_GE(amin(psi).item(), 0);
  const Tensor spread = snnk_weight(options_of(SnnkStart::spread), 1);
  ASSERT_EQ(spread.shape(), (Shape{20, 32}));
  const double bound = 1 / std::sqrt(32.0);
  EXPECT_LE(amax(abs(spread)).item(), bound);
  EXPECT_GT(amax(spread).item(), 0.9 * bound);
  EXPECT_LT(amin(spread).item(), -0.9 * bound);
  // 640 numbers from U(+-bound): variance bound^2 / 3, with a deviation of 0.9 / sqrt(640) of that
  EXPECT_NEAR(mean(square(spread)).item() / (bound * bound / 3), 1, 0.18);
  EXPECT_EQ(amax(abs(spread - snnk_weight(options_of(SnnkStart::spread), 1))).item(), 0);
}

TEST(Mlp, ParametersAreCountedAndBundlesAgree) {
  Generator init(2);
  const MlpOptions options = options_of(SnnkStart::spread, 8);
  Mlp mlp({}, options, init);
  EXPECT_EQ(mlp.parameter_count(), 6 * 24 + 24 + 20 * 8 + 20 * 3 + 3);
  Generator data(3);
  const Tensor x = normal({11, 6}, data);
  Context context{data, false};
  const std::unique_ptr<Bundle> bundle = mlp.bundle();
  const Tensor whole = mlp.forward(x, context).value();
  EXPECT_LT(amax(abs(whole - mlp.forward_bundled(x, *bundle).value())).item(), 1e-6 * amax(abs(whole)).item());
  MlpOptions misplaced = options;
  misplaced.snnk_layer = 2;
  EXPECT_THROW(Mlp({}, misplaced, init), Error);
}

TEST(Mlp, WithAnSnnkLayerItDropsInTrainingAlone) {
  MlpOptions options{.inputs = 3, .hidden = {8, 8}, .dropout = 0.5};
  options.snnk = SnnkOptions{.activation = "relu", .features = 8};
  const auto of = [&](bool training, uint64_t seed) {
    Generator init(1), noise(seed);
    Mlp mlp({}, options, init);
    Context context{noise, training};
    return mlp.forward(Tensor::full({2, 3}, 1), context).value().to_vector<float>();
  };
  EXPECT_EQ(of(false, 1), of(false, 2));
  EXPECT_NE(of(true, 1), of(true, 2));
}

}  // namespace
}  // namespace bochner
