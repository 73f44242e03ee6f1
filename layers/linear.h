// y = x W^T + b
#pragma once

#include "layers/module.h"

namespace bochner {

struct LinearOptions {
  enum class Init : unsigned char {
    fan_in,  ///< PyTorch's default: weight and bias U(+-1 / sqrt(inputs))
    xavier,  ///< weight Glorot uniform, bias N(0, 1e-6^2) as LRA and KL
    normal   ///< weight N(0, deviation^2), bias 0
  };
  bool bias = true;
  Init init = Init::fan_in;
  double deviation = 0.02;
};

class Linear : public Module {
 public:
  Linear(Slot slot, int64_t inputs, int64_t outputs, Generator& init, LinearOptions options = {});

  /// (..., inputs) -> (..., outputs)
  Variable forward(const Variable& x) const;

  int64_t inputs() const { return weight.shape()[1]; }
  int64_t outputs() const { return weight.shape()[0]; }

  Parameter& weight;  ///< (outputs, inputs)
  Parameter* bias;    ///< (outputs), null without one
};

}  // namespace bochner
