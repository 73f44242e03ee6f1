// Joining tensors: along an axis (concat), along a new axis (stack), and padding them (pad). Any type.
//
//   concat({a, b}, -1)               // (8, 3) and (8, 5) -> (8, 8)
//   pad(image, {0, 1, 1}, {0, 1, 1}) // (3, 32, 32) -> (3, 34, 34)
#pragma once

#include <vector>

#include "engine/tensor.h"

namespace bochner {

/// y[.., o_t + i, ..] = x_t[.., i, ..] with o_t the sum of the sizes before t. Needs at least one tensor; types,
/// devices and sizes must be equal, except the sizes along `axis`.
Tensor concat(const std::vector<Tensor>& tensors, int axis);
/// y[.., t, ..] = x_t[.., ..]: a new axis before `axis` (-1: after the last). Shapes, types and devices must be equal.
Tensor stack(const std::vector<Tensor>& tensors, int axis = 0);
/// Adds `before[a]` and `after[a]` elements of `value` at the ends of every axis a; neither is negative.
Tensor pad(const Tensor& x, const Dims& before, const Dims& after, double value = 0);

}  // namespace bochner
