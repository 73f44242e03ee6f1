#pragma once

#include "engine/tensor.h"

namespace bochner::cuda {

/// The first k in order of each row of x (rows, columns): values and indices (rows, k); all contiguous, 1 <= k <=
/// columns.
void sort(int64_t rows, int64_t columns, int64_t k, bool descending, const Tensor& x, const Tensor& values,
          const Tensor& indices);

/// Of each row, the first place of the largest or smallest element.
void argmax(int64_t rows, int64_t columns, bool largest, const Tensor& x, const Tensor& places);

}  // namespace bochner::cuda
