// The fixture of tests that hold for every name of the attention registry.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "layers/attention/mechanism.h"

namespace bochner {

inline constexpr int64_t kHeads = 2;
inline constexpr int64_t kDim = 6;

class EveryMechanism : public testing::TestWithParam<size_t> {
 protected:
  const MechanismInfo& info() const { return mechanisms()[GetParam()]; }

  /// Small: 8 features, blocks of 4, for up to 130 tokens.
  static AttentionOptions small(AttentionOptions options) {
    options.features = 8;
    options.block = 4;
    options.summary = 1;
    options.convolution = 5;
    options.factor = 1;
    options.length = 130;
    return options;
  }

  std::unique_ptr<Mechanism> make(AttentionOptions options = {}) const {
    options = small(options);
    Generator init(3);
    auto mechanism = info().make({}, kHeads, kDim, options, init);
    mechanism->to(Device::cpu(), DType::f64);
    return mechanism;
  }

  static Tensor values(const Shape& shape, uint64_t seed) {
    Generator generator(seed);
    return normal(shape, generator, 0, 1, DType::f64);
  }

  static std::vector<double> attend(Mechanism& mechanism, const Tensor& Q, const Tensor& K, const Tensor& V,
                                    const Mask& mask, bool training = false) {
    Generator noise(11);
    Context context{noise, training};
    return mechanism.forward(Q, K, V, mask, context).value().to_vector<double>();
  }
};

/// The largest difference.
inline double apart(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

inline std::string every_mechanism_name(const testing::TestParamInfo<size_t>& tested) {
  std::string name = mechanisms()[tested.param].name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace bochner
