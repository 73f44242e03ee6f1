// Moving elements: copy between any strides, types and devices; fill and count.
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// to[i] = from[i], converted to the type of `to`; shapes must be equal.
void copy(const Tensor& from, const Tensor& to);
/// to[i] = value.
void fill(const Tensor& to, double value);
/// to[i] = i; i64, contiguous.
void count_up(const Tensor& to);

}  // namespace bochner
