// Order along one axis: sort, argsort, topk, argmax. Equal elements keep their order, so every result is unique; NaN
// counts as larger than any number. f32, f64, i32, i64; indices are i64.
#pragma once

#include "engine/tensor.h"

namespace bochner {

struct Ordered {
  Tensor values;   ///< sorted
  Tensor indices;  ///< where they were: values = gather(x, axis, indices)
};

/// All elements in ascending or descending order. Equal ones keep the order of their places, in both directions.
Ordered sort(const Tensor& x, int axis = -1, bool descending = false);
/// The places of the elements in that order.
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false);
/// The k largest elements, largest first, and the lowest places first among equals: the first k of sort(x, axis, true).
/// 0 <= k <= size of the axis, which becomes k.
Ordered topk(const Tensor& x, int64_t k, int axis = -1);
/// The place of the largest (smallest) element, the lowest place among equals. The axis is removed, or stays with size
/// 1 (keep); an empty axis is an Error.
Tensor argmax(const Tensor& x, int axis = -1, bool keep = false);
Tensor argmin(const Tensor& x, int axis = -1, bool keep = false);

}  // namespace bochner
