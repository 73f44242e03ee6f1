// act(x + b) with a hand-written backward that keeps only x; the equation is in engine/ops/bias_activation.h.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/bias_activation.h"

namespace bochner {

/// y = act(x + b): x (..., n), b (n) or undefined.
Variable bias_activation(const Variable& x, const Variable& bias, Activation activation);
/// The same in plain ops.
Variable bias_activation_composed(const Variable& x, const Variable& bias, Activation activation);
/// The activation alone, in plain ops.
Variable activate(const Variable& x, Activation activation);

}  // namespace bochner
