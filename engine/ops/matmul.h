// Matrix products.
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// C = A B:  (..., m, k) x (..., k, n) -> (..., m, n); leading axes broadcast. f32, f64. Transposed views cost no copy.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace bochner
