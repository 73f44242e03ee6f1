// What mechanisms do otherwise as released, where that is the paper's mechanism on other inputs.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "engine/random.h"
#include "layers/attention/mechanism.h"

namespace bochner {
namespace {

constexpr int64_t kDim = 8;
const Shape kShape{2, 2, 12, kDim};

Tensor values(uint64_t seed) {
  Generator generator(seed);
  return normal(kShape, generator, 0, 1, DType::f64);
}

std::unique_ptr<Mechanism> made(const MechanismOptions& options) {
  Generator init(4);
  auto mechanism = make_mechanism({}, 2, kDim, options, init);
  mechanism->to(Device::cpu(), DType::f64);
  return mechanism;
}

std::vector<double> output(Mechanism& mechanism, double scale, const Tensor& keys) {
  Generator noise(5);
  Context context{noise, true};
  return mechanism.forward(values(1) * scale, values(2) * scale, values(3), {keys, false}, context)
      .value()
      .to_vector<double>();
}

double apart(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(Released, PerformerScalesTwiceAndDrawsOnce) {
  const auto released = made({"performer", {{"features", 16}, {"redraw", 1}, {"as", "released"}}});
  const auto paper = made({"performer", {{"features", 16}, {"redraw", 0}, {"eps", 1e-4}}});
  const std::vector<double> found = output(*released, 1, {});
  EXPECT_LT(apart(found, output(*paper, std::pow(kDim, -0.25), {})), 1e-12);
  EXPECT_GT(apart(found, output(*paper, 1, {})), 1e-3);
  output(*released, 1, {});
  EXPECT_EQ(found, output(*released, 1, {}));  // the same frequencies in every training step
}

TEST(Released, LinearEluCountsPaddedKeys) {
  const Tensor keys = less(Tensor::arange(12).unsqueeze(0), Tensor::from<int64_t>({12, 7}, {2, 1}));
  const auto released = made({"linear-elu", {{"as", "released"}}});
  const auto paper = made("linear-elu");
  EXPECT_EQ(output(*released, 1, keys), output(*paper, 1, {}));
  EXPECT_GT(apart(output(*released, 1, keys), output(*paper, 1, keys)), 1e-3);
}

}  // namespace
}  // namespace bochner
