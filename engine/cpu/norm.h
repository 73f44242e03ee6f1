#pragma once

#include "engine/tensor.h"

namespace bochner::cpu {

/// All contiguous: x, y, g, dx (rows, d); mean, rstd (rows); gamma, beta, dgamma, dbeta (d).
void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                const Tensor& mean, const Tensor& rstd);
void layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta);

}  // namespace bochner::cpu
