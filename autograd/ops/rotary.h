// Rotary positions of Variables; equations are in engine/ops/rotary.h.
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// The first `turned` vectors of each token of x (batch, length, vectors, dim), rotated by angles whose cosines and
/// sines are given, (length, dim / 2). See engine/ops/rotary.h.
Variable rotary(const Variable& x, const Tensor& cosines, const Tensor& sines, int64_t turned, bool back = false);

}  // namespace bochner
