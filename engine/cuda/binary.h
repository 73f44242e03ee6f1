#pragma once

#include "engine/dtype.h"
#include "engine/loop.h"

namespace bochner::cuda {

/// Operands: z, a, b.
template <class Op>
void binary(const Op& op, const Loop& loop, DType dtype);
/// Operands: z, condition, a, b.
void where(const Loop& loop, DType dtype);

}  // namespace bochner::cuda
