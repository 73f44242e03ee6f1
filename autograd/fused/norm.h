// Normalisation with hand-written backwards; equations are in engine/ops/norm.h.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/norm.h"

namespace bochner {

/// x (..., d), gamma (d), beta (d) -> (..., d)
Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double eps = 1e-5);

/// x (n, features), in training; updates in place those tensors of `running` (features) that are defined.
Variable batch_norm(const Variable& x, const Variable& gamma, const Variable& beta, const ColumnMoments& running = {},
                    double momentum = 0.1, double eps = 1e-5);

/// The same in plain ops.
Variable layer_norm_composed(const Variable& x, const Variable& gamma, const Variable& beta, double eps = 1e-5);
Variable batch_norm_composed(const Variable& x, const Variable& gamma, const Variable& beta, double eps = 1e-5);

}  // namespace bochner
