// The numbers of scripts in tests/golden, and the formula for their inputs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "engine/tensor.h"

namespace bochner {

/// sin(1.3 i + phase) in row-major order, f64.
inline Tensor wave(double phase, const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(1.3 * static_cast<double>(i) + phase);
  return Tensor::from(values, shape);
}

inline nlohmann::json golden(const std::string& part, const std::string& name = "layers.json") {
  std::ifstream file(BOCHNER_SOURCE_DIR "/tests/golden/" + name);
  return nlohmann::json::parse(file).at(part);
}

inline void expect_near(const Tensor& actual, const nlohmann::json& expected, double tolerance,
                        const std::string& what) {
  const std::vector<double> values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    const double wanted = expected[i];
    EXPECT_NEAR(values[i], wanted, tolerance * std::max(1.0, std::abs(wanted))) << what << " at " << i;
  }
}

/// The gradient of the sum of y times wave(9).
inline Gradients pulled(Tape& tape, const Variable& y, const std::vector<Variable>& inputs) {
  return tape.gradients(sum(y * Variable(wave(9, y.shape()).cast(y.dtype()))), inputs);
}

}  // namespace bochner
