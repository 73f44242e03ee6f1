// Matrix products of Variables; the contract is in engine/ops/matmul.h.
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// C = A B: (..., m, k) x (..., k, n) -> (..., m, n); leading axes broadcast.
Variable matmul(const Variable& a, const Variable& b);
/// Y = X W^T: (..., k) x (n, k) -> (..., n), as weights of layers lie.
Variable matmul_transposed(const Variable& x, const Variable& w);

}  // namespace bochner
