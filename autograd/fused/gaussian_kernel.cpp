#include "autograd/fused/gaussian_kernel.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/ops/gaussian.h"

namespace bochner {
namespace composed {

Variable gaussian_kernel(const Variable& x, const Variable& y, const Tensor& mask) {
  const Variable half_x = sum(square(x), {-1}, true) * 0.5;                     // (B, H, n, 1)
  const Variable half_y = transpose(sum(square(y), {-1}, true) * 0.5, -2, -1);  // (B, H, 1, m)
  const Variable C = exp(matmul(x, transpose(y, -2, -1)) - half_x - half_y);    // (B, H, n, m)
  return mask.defined() ? where(mask.view({mask.size(0), 1, 1, mask.size(1)}), C, 0) : C;
}

}  // namespace composed

Variable gaussian_kernel(const Variable& x, const Variable& y, const Tensor& mask) {
  const Tensor C = gaussian_kernel(x.value(), y.value(), mask);
  return record_fused(
      "gaussian_kernel", C, {x, y}, [=](const auto& in) { return composed::gaussian_kernel(in[0], in[1], mask); },
      [=](const Tensor& g, const auto& in) -> Gradients {
        const GaussianGradients grads = gaussian_kernel_backward(g, C, in[0].value(), in[1].value());
        return {grads.dx, grads.dy};
      });
}

}  // namespace bochner
