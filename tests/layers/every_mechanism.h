// The fixture for tests that hold for every name in the attention registry.
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

/// The mechanism with 8 features and blocks of 4, for up to `length` tokens.
inline MechanismOptions small(const std::string& mechanism, int64_t length = 130) {
  return MechanismOptions(mechanism).set_known(
      {{"features", 8}, {"block", 4}, {"summary", 1}, {"convolution", 5}, {"factor", 1}, {"length", length}});
}

class EveryMechanism : public testing::TestWithParam<size_t> {
 protected:
  const MechanismInfo& info() const { return mechanisms()[GetParam()]; }

  bool has(const std::string& option) const { return info().defaults().has(option); }

  /// A small mechanism, with those of the settings that it has.
  std::unique_ptr<Mechanism> make(const Settings& settings = {}) const {
    Generator init(3);
    auto mechanism = make_mechanism({}, kHeads, kDim, small(info().name).set_known(settings), init);
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
