// LayerNorm's kernels, which fused layers also call. Their parameters are described in engine/ops/norm.h.
#pragma once

#include "engine/ops/norm.h"

namespace bochner::cuda {

void layer_norm(const Tensor& x, const NormWeights& weights, double eps, const NormResult& result);
void layer_norm_apply(const Tensor& x, const NormWeights& weights, const NormStatistics& statistics, const Tensor& y);
void layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const NormStatistics& statistics,
                         const Tensor& residual, const NormGradients& result);

}  // namespace bochner::cuda
