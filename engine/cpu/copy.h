#pragma once

#include "engine/dtype.h"
#include "engine/loop.h"

namespace bochner::cpu {

/// Operands: to, from.
void copy(const Loop& loop, DType to, DType from);
void fill(const Loop& loop, DType to, double value);

}  // namespace bochner::cpu
