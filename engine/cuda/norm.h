#pragma once

#include "engine/ops/dropout.h"
#include "engine/tensor.h"

namespace bochner::cuda {

// All contiguous, of one floating type. x, y, g, dx, residual, sum (rows, columns); mean, rstd (rows); gamma, beta,
// dgamma, dbeta (columns).

void layer_norm(int64_t rows, int64_t columns, const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                const Tensor& y, const Tensor& mean, const Tensor& rstd);
void layer_norm_apply(int64_t rows, int64_t columns, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                      const Tensor& mean, const Tensor& rstd, const Tensor& y);
void residual_layer_norm(int64_t rows, int64_t columns, const Tensor& x, const Tensor& residual, const Dropout& drop,
                         const Tensor& gamma, const Tensor& beta, double eps, const Tensor& sum, const Tensor& y,
                         const Tensor& mean, const Tensor& rstd);
/// `residual` may be undefined.
void layer_norm_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& x, const Tensor& gamma,
                         const Tensor& mean, const Tensor& rstd, const Tensor& residual, const Tensor& dx,
                         const Tensor& dgamma, const Tensor& dbeta);

/// mean and (biased) variance of each column.
void column_moments(int64_t rows, int64_t columns, const Tensor& x, const Tensor& mean, const Tensor& variance);
/// y = (x - mean) rstd gamma + beta; mean, rstd, gamma, beta (columns).
void batch_norm_apply(int64_t rows, int64_t columns, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                      const Tensor& mean, const Tensor& rstd, const Tensor& y);
void batch_norm_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& x, const Tensor& gamma,
                         const Tensor& mean, const Tensor& rstd, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta);

}  // namespace bochner::cuda
