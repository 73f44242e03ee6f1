#pragma once

#include "engine/tensor.h"

namespace bochner::cpu {

enum class Reduction : unsigned char { sum, max, min };

/// x is contiguous (outer, count, inner); y is contiguous (outer, inner).
void reduce(Reduction op, int64_t outer, int64_t count, int64_t inner, const Tensor& x, const Tensor& y);

}  // namespace bochner::cpu
