// The matrix of a Gaussian kernel; equations are in engine/ops/gaussian.h.
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// C_ij = exp(-|x_i - y_j|^2 / 2), and 0 where `mask`, bool (B, m) or undefined, is false:
/// x (B, H, n, D), y (B, H, m, D) -> (B, H, n, m)
Variable gaussian_kernel(const Variable& x, const Variable& y, const Tensor& mask = {});

namespace composed {

/// The same in plain differentiable ops.
Variable gaussian_kernel(const Variable& x, const Variable& y, const Tensor& mask);

}  // namespace composed
}  // namespace bochner
