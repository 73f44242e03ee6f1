// LayerNorm's kernels, which fused layers call too. Their parameters are described in engine/ops/norm.cpp.
#pragma once

#include "engine/tensor.h"

namespace bochner::cuda {

void layer_norm(int64_t rows, int64_t columns, const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                const Tensor& y, const Tensor& mean, const Tensor& rstd);
void layer_norm_apply(int64_t rows, int64_t columns, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                      const Tensor& mean, const Tensor& rstd, const Tensor& y);
void layer_norm_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& x, const Tensor& gamma,
                         const Tensor& mean, const Tensor& rstd, const Tensor& residual, const Tensor& dx,
                         const Tensor& dgamma, const Tensor& dbeta);

}  // namespace bochner::cuda
