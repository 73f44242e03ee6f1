#include "engine/ops/gaussian.h"

#include "engine/kernel.h"
#include "engine/ops/attention/attention_shapes.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"

namespace bochner {

// half = |x|^2 / 2 for each row of x (rows, columns), contiguous.
BOCHNER_KERNEL(kHalfNorms, "gaussian_norms", half_norms, int64_t rows, int64_t columns, const Tensor& x,
               const Tensor& half);
// C (B, H, n, m), contiguous, holds products x_i . y_j; half_x (B, H, n), half_y (B, H, m), mask (B, m) contiguous or
// undefined.
BOCHNER_KERNEL(kGaussian, "gaussian_kernel", gaussian_kernel, const Tensor& half_x, const Tensor& half_y,
               const Tensor& mask, const Tensor& C);
// W = dC C, 0 where C is, and its sums over each row; (rows, columns), contiguous.
BOCHNER_KERNEL(kGaussianBackward, "gaussian_kernel_backward", gaussian_kernel_backward, int64_t rows, int64_t columns,
               const Tensor& dC, const Tensor& C, const Tensor& W, const Tensor& sums);
// to_i -= weight_i x_i for each row of (rows, columns), contiguous.
BOCHNER_KERNEL(kSubtractRows, "gaussian_rows", subtract_rows, int64_t rows, int64_t columns, const Tensor& weights,
               const Tensor& x, const Tensor& to);

namespace {

Tensor half_norms(const Tensor& x) {
  const Tensor half = Tensor::empty({x.size(0), x.size(1), x.size(2)}, x.dtype(), x.device());
  if (half.size() > 0) kHalfNorms(x.device(), half.size(), x.size(3), x, half);
  return half;
}

/// sums - weight_i x_i
Tensor around(const Tensor& sums, const Tensor& weights, const Tensor& x) {
  if (sums.size() > 0) kSubtractRows(x.device(), weights.size(), x.size(3), weights, x, sums);
  return sums;
}

}  // namespace

Tensor gaussian_kernel(const Tensor& x, const Tensor& y, const Tensor& mask) {
  check_attention("gaussian_kernel", x, y, y, mask);
  require_floating(x.dtype(), "gaussian_kernel");
  const Tensor from = x.contiguous();
  const Tensor to = y.contiguous();
  const Tensor C = matmul(from, to.transpose(-2, -1));
  if (C.size() > 0) kGaussian(x.device(), half_norms(from), half_norms(to), mask.contiguous(), C);
  return C;
}

GaussianGradients gaussian_kernel_backward(const Tensor& dC, const Tensor& C, const Tensor& x, const Tensor& y) {
  if (!(dC.shape() == C.shape())) {
    fail("gaussian_kernel_backward: a gradient {} of {}", dC.shape().str(), C.shape().str());
  }
  const Tensor W = Tensor::empty_like(C);
  const Tensor row_sums = Tensor::empty(C.shape().without_last(1), C.dtype(), C.device());
  if (row_sums.size() > 0) {
    kGaussianBackward(C.device(), row_sums.size(), C.size(3), dC.contiguous(), C.contiguous(), W, row_sums);
  }
  return {around(matmul(W, y), row_sums, x.contiguous()),
          around(matmul(W.transpose(-2, -1), x), sum(W, {2}), y.contiguous())};
}

}  // namespace bochner
