#pragma once

#include "engine/dtype.h"
#include "engine/loop.h"

namespace bochner::cuda {

/// Operands: to, from.
void copy(const Loop& loop, DType to, DType from);
void fill(const Loop& loop, DType to, double value);
/// Of one shape, on two devices, at least one of them a card; any strides and types. Waits where `to` is on the CPU.
void copy_between_devices(const Tensor& from, const Tensor& to);

}  // namespace bochner::cuda
