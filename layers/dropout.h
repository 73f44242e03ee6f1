// Dropout as a module; the equation is in engine/ops/dropout.h.
#pragma once

#include "layers/module.h"

namespace bochner {

/// In training, each element becomes 0 with probability p and is otherwise divided by 1 - p. Outside training nothing
/// changes. The noise comes from the context.
class DropoutLayer : public Module {
 public:
  explicit DropoutLayer(Slot slot, double p = 0.1);
  Variable forward(const Variable& x, Context& context) const;
  double p() const { return p_; }

 private:
  double p_;
};

}  // namespace bochner
