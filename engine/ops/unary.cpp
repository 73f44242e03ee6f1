#include "engine/ops/unary.h"

#include "engine/bf16.h"
#include "engine/kernel.h"
#include "engine/loop.h"

namespace bochner {

namespace cpu {
/// Operands: y, x.
template <class Op>
void unary(const Op& op, const Loop& loop, DType dtype);
/// Operands: dx, g, x, y.
template <class Op>
void unary_backward(const Op& op, const Loop& loop, DType dtype);
}  // namespace cpu
namespace cuda {
/// Operands: y, x.
template <class Op>
void unary(const Op& op, const Loop& loop, DType dtype);
/// Operands: dx, g, x, y.
template <class Op>
void unary_backward(const Op& op, const Loop& loop, DType dtype);
}  // namespace cuda

template <class Op>
Tensor apply(const Op& op, const Tensor& x) {
  static constexpr Kernel kernel{Op::name, &cpu::unary<Op>, CUDA_KERNEL(unary<Op>)};
  if (must_convert(x)) return to_bf16(apply(op, to_f32(x)));
  Tensor y = Tensor::empty_like(x);
  kernel(x.device(), op, make_loop(Op::name, {&y, &x}), x.dtype());
  return y;
}

template <class Op>
Tensor apply_backward(const Op& op, const Tensor& g, const Tensor& x, const Tensor& y) {
  static constexpr Kernel kernel{Op::name, &cpu::unary_backward<Op>, CUDA_KERNEL(unary_backward<Op>)};
  if (must_convert(x)) return to_bf16(apply_backward(op, to_f32(g), to_f32(x), to_f32(y)));
  Tensor dx = Tensor::empty_like(x);
  kernel(x.device(), op, make_loop(Op::name, {&dx, &g, &x, &y}), x.dtype());
  return dx;
}

#define BOCHNER_INSTANTIATE(Op, ...)                                 \
  template Tensor apply<unary::Op>(const unary::Op&, const Tensor&); \
  template Tensor apply_backward<unary::Op>(const unary::Op&, const Tensor&, const Tensor&, const Tensor&);
BOCHNER_PLAIN_UNARY_OPS(BOCHNER_INSTANTIATE)
BOCHNER_PARAMETRIC_UNARY_OPS(BOCHNER_INSTANTIATE)
#undef BOCHNER_INSTANTIATE

}  // namespace bochner
