// Matrix products.
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// One stored matrix: row-major with row stride `stride`, or the transpose of such a matrix.
struct MatrixLayout {
  bool transposed;
  int64_t stride;
};

/// C = A B:  (..., m, k) x (..., k, n) -> (..., m, n); leading axes broadcast. f32, f64, bf16. Transposed views cost no
/// copy.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace bochner
