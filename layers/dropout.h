// Dropout as a module; equation in engine/ops/dropout.h.
#pragma once

#include "layers/module.h"

namespace bochner {

/// In training each element is 0 with probability p, else divided by 1 - p; otherwise nothing changes. The noise is the
/// context's.
class DropoutLayer : public Module {
 public:
  explicit DropoutLayer(Slot slot, double p = 0.1);
  Variable forward(const Variable& x, Context& context) const;
  double p() const { return p_; }

 private:
  double p_;
};

}  // namespace bochner
