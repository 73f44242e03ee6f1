#pragma once

#include "engine/loop.h"

namespace bochner::cpu {

/// An Error in the name of `op` unless every element of `index` (i64, contiguous) lies in [0, bound).
void check_index(const Tensor& index, int64_t bound, const char* op);

/// Operands y, x, index (i64): y = x[index * stride], with x at index 0. `bytes` is the size of an element of x and y.
void gather(const Loop& loop, size_t bytes, int64_t stride);

/// y (outer, bins, inner) and source (outer, count, inner), contiguous; strides of the index, in elements, along each
/// axis of source; inner_stride is 0 or 1.
struct Scatter {
  int64_t outer, bins, count, inner;
  int64_t outer_stride, count_stride, inner_stride;
};
/// y[o, index[o, i, c], c] += source[o, i, c], i ascending.
void scatter_add(const Scatter& scatter, const Tensor& index, const Tensor& source, const Tensor& y);

/// y (size, classes), contiguous.
void one_hot(const Tensor& index, int64_t classes, const Tensor& y);

}  // namespace bochner::cpu
