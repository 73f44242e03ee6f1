// Running sums.
#pragma once

#include "engine/tensor.h"

namespace bochner {

struct ScanOptions {
  bool exclusive = false;  ///< leave the element itself out: y_0 = 0
  bool reverse = false;    ///< from the end to the beginning
};

/// y_i = sum over j <= i of x_j along `axis`; j < i if exclusive, j >= i if reverse, j > i with both. f32, f64, i32,
/// i64; f32 is added up in f64, and integers wrap around. The derivative is the same scan in the other direction.
Tensor cumsum(const Tensor& x, int axis, ScanOptions options = {});

}  // namespace bochner
