// For tests that need a card (or, in a build with BOCHNER_CUDA=EMULATED, the CPU in its place).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/device.h"
#include "engine/tensor.h"

namespace bochner::testing_card {

/// The reason why there is no card; empty if there is one.
inline std::string missing() {
  try {
    Device::named("cuda");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Fills freed memory of the card with NaN, so that outputs that are not written are noticed.
inline void poison() {
  for (const int64_t count : {64, 1024, 65536}) {
    std::vector<Tensor> blocks;
    for (int i = 0; i < 8; ++i) {
      blocks.push_back(Tensor::full({count}, std::numeric_limits<double>::quiet_NaN(), DType::f32, Device::cuda()));
    }
  }
}

/// sum (a - b)^2 / sum b^2, where `floor` replaces the mean square of b if that is smaller.
inline double squared_error(const std::vector<double>& a, const std::vector<double>& b, double floor = 1e-6) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i]) continue;  // infinities
    error += (a[i] - b[i]) * (a[i] - b[i]);
  }
  for (const double x : b) size += std::isfinite(x) ? x * x : 0;
  return error == 0 ? 0 : error / std::max(size, floor * static_cast<double>(b.size()));
}

/// A floor for the parts of one result: gradients that are 0 up to rounding are compared on the scale of the others.
inline double common_floor(const std::vector<std::vector<double>>& parts) {
  double largest = 0;
  for (const auto& part : parts) {
    double size = 0;
    for (const double x : part) size += x * x;
    if (!part.empty()) largest = std::max(largest, size / static_cast<double>(part.size()));
  }
  return std::max(1e-6, 1e-3 * largest);
}

}  // namespace bochner::testing_card

#define BOCHNER_NEEDS_CARD()                                             \
  do {                                                                   \
    const std::string missing_card = ::bochner::testing_card::missing(); \
    if (!missing_card.empty()) GTEST_SKIP() << missing_card;             \
  } while (false)
