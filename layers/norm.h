// Layer normalisation as a module; the equation is in engine/ops/norm.h.
#pragma once

#include "layers/module.h"

namespace bochner {

class LayerNorm : public Module {
 public:
  LayerNorm(Slot slot, int64_t dim, double eps = 1e-5);
  /// (..., dim) -> (..., dim)
  Variable forward(const Variable& x) const;

  double eps() const { return eps_; }
  Parameter& weight;  ///< gamma (dim), ones at first
  Parameter& bias;    ///< beta (dim), zeros at first

 private:
  double eps_;
};

}  // namespace bochner
