// Layer normalisation as a module; equation in engine/ops/norm.h.
#pragma once

#include "layers/module.h"

namespace bochner {

class LayerNormLayer : public Module {
 public:
  LayerNormLayer(Slot slot, int64_t dim, double eps = 1e-5);
  /// (..., dim) -> (..., dim)
  Variable forward(const Variable& x) const;

 private:
  double eps_;
  Parameter& weight_;  ///< gamma, ones at first
  Parameter& bias_;    ///< beta, zeros at first
};

}  // namespace bochner
