// Sums over the slices of sequences (engine/comm/sequence_slices.h).
#pragma once

#include "autograd/variable.h"
#include "engine/comm/sequence_slices.h"

namespace bochner {

/// y = sum_k x_k over all slices k, the same in each of them, so dx_k = sum_j dy_j. x has any shape, the same in all
/// slices, and is f32 or f64 on the CPU. All slices must make this call, and its backward as well, so in each of them
/// what follows must depend on y.
Variable sum_over_slices(const Variable& x, SequenceSlice& slice);

}  // namespace bochner
