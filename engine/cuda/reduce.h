#pragma once

#include "engine/cpu/reduce.h"
#include "engine/tensor.h"

namespace bochner::cuda {

using cpu::Reduction;

/// x is contiguous (outer, count, inner); y is contiguous (outer, inner). The order of a sum follows from the sizes.
void reduce(Reduction op, int64_t outer, int64_t count, int64_t inner, const Tensor& x, const Tensor& y);

}  // namespace bochner::cuda
