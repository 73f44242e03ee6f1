// Joining Variables; contracts are in engine/ops/join.h.
#pragma once

#include <vector>

#include "autograd/variable.h"

namespace bochner {

/// The tensors one after the other along an axis.
Variable concat(const std::vector<Variable>& xs, int axis);
/// The tensors along a new axis before `axis` (-1: the last).
Variable stack(const std::vector<Variable>& xs, int axis = 0);
/// The slices along an axis, which is removed: the adjoint of stack.
std::vector<Variable> unbind(const Variable& x, int axis);
/// Adds `before[a]` and `after[a]` elements of `value` at the ends of every axis a.
Variable pad(const Variable& x, const Dims& before, const Dims& after, double value = 0);

}  // namespace bochner
