#pragma once

#include "engine/cpu/index.h"
#include "engine/loop.h"

namespace bochner::cuda {

using cpu::Scatter;

/// Reports an element of `index` (i64, contiguous) outside [0, bound) in the name of `op`; it becomes an Error at the
/// next read by the host, and what follows leaves such elements out.
void check_index(const Tensor& index, int64_t bound, const char* op);

/// Operands y, x, index (i64): y = x[index * stride], with x at index 0. `bytes` is the size of an element of x and y.
void gather(const Loop& loop, size_t bytes, int64_t stride);

/// y[o, index[o, i, c], c] += source[o, i, c], i ascending.
void scatter_add(const Scatter& scatter, const Tensor& index, const Tensor& source, const Tensor& y);

/// y (size, classes), contiguous.
void one_hot(const Tensor& index, int64_t classes, const Tensor& y);

}  // namespace bochner::cuda
