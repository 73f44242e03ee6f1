// The Walsh-Hadamard transform of Variables.
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// y = H x along the last axis, whose size must be a power of two; not normalised. See engine/ops/hadamard.h.
Variable hadamard(const Variable& x);

}  // namespace bochner
