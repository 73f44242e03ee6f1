// Reductions over axes. Sums are taken in a fixed order that depends on the shape alone: equal bits for any number of
// threads.
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// What a reduction does with the elements of an axis.
enum class Reducer : unsigned char { sum, max, min };

/// y = sum of x over `axes`, or over all axes if none are given. Reduced axes are removed, or stay with size 1 (keep).
/// f32, f64, bf16 (summed in f32), i32, i64.
Tensor sum(const Tensor& x, const Dims& axes = {}, bool keep = false);
/// y = sum / number of elements summed. f32, f64, bf16.
Tensor mean(const Tensor& x, const Dims& axes = {}, bool keep = false);
/// The largest element; an Error over an axis of size 0.
Tensor amax(const Tensor& x, const Dims& axes = {}, bool keep = false);
Tensor amin(const Tensor& x, const Dims& axes = {}, bool keep = false);
/// Sums x down to `shape`, which must broadcast to x's: the adjoint of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace bochner
