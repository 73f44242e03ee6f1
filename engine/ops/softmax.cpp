#include "engine/ops/softmax.h"

#include "engine/bf16.h"
#include "engine/kernel.h"

namespace bochner {

// All contiguous: x, y, g, dx (rows, columns); logsumexp's y (rows).
BOCHNER_KERNEL(kSoftmax, "softmax", softmax, int64_t rows, int64_t columns, const Tensor& x, const Tensor& y);
BOCHNER_KERNEL(kSoftmaxBackward, "softmax_backward", softmax_backward, int64_t rows, int64_t columns, const Tensor& g,
               const Tensor& y, const Tensor& dx);
BOCHNER_KERNEL(kLogSumExp, "logsumexp", logsumexp, int64_t rows, int64_t columns, const Tensor& x, const Tensor& y);

Tensor softmax(const Tensor& x, int axis) {
  if (x.dtype() == DType::bf16) return to_bf16(softmax(to_f32(x), axis));
  const Tensor rows = x.transpose(axis, -1).contiguous();
  Tensor y = Tensor::empty(rows.shape(), x.dtype(), x.device());
  if (x.size() > 0) kSoftmax(x.device(), x.size() / rows.size(-1), rows.size(-1), rows, y);
  return y.transpose(axis, -1);
}

Tensor softmax_backward(const Tensor& g, const Tensor& y, int axis) {
  if (y.dtype() == DType::bf16) return to_bf16(softmax_backward(to_f32(g), to_f32(y), axis));
  const Tensor rows = y.transpose(axis, -1).contiguous();
  const Tensor gradient = g.transpose(axis, -1).contiguous();
  Tensor dx = Tensor::empty(rows.shape(), y.dtype(), y.device());
  if (y.size() > 0) kSoftmaxBackward(y.device(), y.size() / rows.size(-1), rows.size(-1), gradient, rows, dx);
  return dx.transpose(axis, -1);
}

Tensor logsumexp(const Tensor& x, int axis, bool keep) {
  if (x.dtype() == DType::bf16) return to_bf16(logsumexp(to_f32(x), axis, keep));
  const Tensor rows = x.transpose(axis, -1).contiguous();
  Tensor y = Tensor::empty(rows.shape().with_last(1), x.dtype(), x.device());
  if (y.size() > 0) kLogSumExp(x.device(), y.size(), rows.size(-1), rows, y);
  const Tensor placed = y.transpose(axis, -1);
  return keep ? placed : placed.squeeze(axis);
}

}  // namespace bochner
