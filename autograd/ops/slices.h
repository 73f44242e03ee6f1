// Sums over the slices of sequences (engine/comm/sequence_slices.h).
#pragma once

#include "autograd/variable.h"
#include "engine/comm/sequence_slices.h"

namespace bochner {

/// y = sum_k x_k over all slices k, in each of them, so dx_k = sum_j dy_j. Of any shape, the same in all slices, f32 or
/// f64 on the CPU. All slices must come here, and on the way back as well: what follows must depend on y in each of
/// them.
Variable sum_over_slices(const Variable& x, SequenceSlice& slice);

}  // namespace bochner
