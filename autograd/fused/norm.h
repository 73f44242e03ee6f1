// Layer normalisation with a hand-made backward; equation in engine/ops/norm.h.
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// x (..., d), gamma (d), beta (d) -> (..., d)
Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double eps = 1e-5);
/// What it equals, in plain ops.
Variable layer_norm_composed(const Variable& x, const Variable& gamma, const Variable& beta, double eps = 1e-5);

}  // namespace bochner
