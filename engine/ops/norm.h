// Layer normalisation (Ba, Kiros & Hinton, 2016) over the last axis:
//   y = gamma * (x - mean) * rstd + beta,  mean = 1/d sum x,  rstd = (1/d sum (x - mean)^2 + eps)^(-1/2)
#pragma once

#include "engine/tensor.h"

namespace bochner {

struct LayerNorm {
  Tensor y;     ///< as x
  Tensor mean;  ///< (rows): the statistics that backward needs; y itself is not kept
  Tensor rstd;  ///< (rows)
};

/// x (..., d), gamma (d), beta (d). f32, f64.
LayerNorm layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps);

struct LayerNormGradients {
  Tensor dx, dgamma, dbeta;
};

/// With n = (x - mean) rstd and h = g gamma:  dx = rstd (h - mean(h) - n mean(h n)),  dgamma = sum g n,  dbeta = sum g.
LayerNormGradients layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                       const Tensor& rstd);

}  // namespace bochner
