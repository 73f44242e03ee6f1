// The matrix of a Gaussian kernel, as one matrix product and a pass over its result.
//
//   C_ij = exp(-|x_i - y_j|^2 / 2) = exp(x_i . y_j - |x_i|^2 / 2 - |y_j|^2 / 2)
//
//   W = dC o C,   dx_i = sum_j W_ij (y_j - x_i),   dy_j = sum_i W_ij (x_i - y_j)
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// x (B, H, n, D), y (B, H, m, D), f32 or f64 -> C (B, H, n, m). Where `mask` (bool (B, m), or undefined) is false, C =
/// 0; y must be finite there. A squared norm of 2e30 or more counts as infinitely far: C = 0.
Tensor gaussian_kernel(const Tensor& x, const Tensor& y, const Tensor& mask);

struct GaussianGradients {
  Tensor dx, dy;
};

/// From dC and the result C of the forward call.
GaussianGradients gaussian_kernel_backward(const Tensor& dC, const Tensor& C, const Tensor& x, const Tensor& y);

}  // namespace bochner
