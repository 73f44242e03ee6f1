#pragma once

#include "engine/dtype.h"
#include "engine/loop.h"

namespace bochner::cuda {

/// Operands: y, x.
template <class Op>
void unary(const Op& op, const Loop& loop, DType dtype);
/// Operands: dx, g, x, y.
template <class Op>
void unary_backward(const Op& op, const Loop& loop, DType dtype);

}  // namespace bochner::cuda
