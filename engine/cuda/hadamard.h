#pragma once

#include "engine/tensor.h"

namespace bochner::cuda {

/// to = H from for each of `rows` contiguous rows of n = 2^k elements; both may be the same tensor.
void hadamard(int64_t rows, int64_t n, const Tensor& from, const Tensor& to);

}  // namespace bochner::cuda
