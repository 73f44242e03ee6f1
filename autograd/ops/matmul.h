// Matrix products of Variables; the contract is in engine/ops/matmul.h.
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// C = A B: (..., m, k) x (..., k, n) -> (..., m, n); leading axes broadcast.
Variable matmul(const Variable& a, const Variable& b);

}  // namespace bochner
