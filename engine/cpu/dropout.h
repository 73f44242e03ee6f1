#pragma once

#include "engine/random.h"
#include "engine/tensor.h"

namespace bochner::cpu {

/// x, y contiguous, of one shape.
void dropout(const Tensor& x, double p, const Generator& place, const Tensor& y);

}  // namespace bochner::cpu
