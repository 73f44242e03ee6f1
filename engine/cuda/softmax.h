#pragma once

#include "engine/tensor.h"

namespace bochner::cuda {

/// All contiguous: x, y, g, dx (rows, columns); logsumexp's y (rows).
void softmax(int64_t rows, int64_t columns, const Tensor& x, const Tensor& y);
void softmax_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& y, const Tensor& dx);
void logsumexp(int64_t rows, int64_t columns, const Tensor& x, const Tensor& y);

}  // namespace bochner::cuda
