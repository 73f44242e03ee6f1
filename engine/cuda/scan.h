#pragma once

#include "engine/tensor.h"

namespace bochner::cuda {

/// x and y (outer, count, inner), contiguous; sums run along the middle.
void cumsum(int64_t outer, int64_t count, int64_t inner, bool exclusive, bool reverse, const Tensor& x,
            const Tensor& y);

}  // namespace bochner::cuda
