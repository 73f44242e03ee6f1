#pragma once

#include "engine/ops/linear.h"

namespace bochner::cpu {

// All contiguous, of one floating type, and positive sizes. b is defined; mean, rstd (rows), gamma and beta are
// undefined together for a layer without norm; residual may be undefined.

void linear(const LinearSizes& sizes, const Tensor& x, const LinearWeights& weights, const Tensor& residual,
            const LinearSpec& spec, const LinearResult& result);
/// Fills `result`, whose gamma, beta and b are undefined where those are not asked for; made.y is defined behind relu.
void linear_backward(const LinearSizes& sizes, const Tensor& g, const Tensor& x, const LinearResult& made,
                     const LinearWeights& weights, const LinearSpec& spec, const LinearGradients& result);

}  // namespace bochner::cpu
