#include "engine/bf16.h"
#include "engine/cuda/parts/elementwise.h"
#include "engine/ops/unary.h"

namespace bochner::cuda {
namespace {

template <class Op, class T>
struct Forward {
  Op op;
  BOCHNER_DEVICE T operator()(T x) const { return static_cast<T>(op.forward(static_cast<ComputeType<T>>(x))); }
};

template <class Op, class T>
struct Backward {
  Op op;
  BOCHNER_DEVICE T operator()(T g, T x, T y) const {
    using C = ComputeType<T>;
    return static_cast<T>(static_cast<C>(g) * op.derivative(static_cast<C>(x), static_cast<C>(y)));
  }
};

}  // namespace

template <class Op>
void unary(const Op& op, const Loop& loop, DType dtype) {
  visit_stored(dtype, Op::name, [&]<class T>(TypeTag<T>) { elementwise1<T, T>(loop, Forward<Op, T>{op}); });
}

template <class Op>
void unary_backward(const Op& op, const Loop& loop, DType dtype) {
  visit_stored(dtype, Op::name, [&]<class T>(TypeTag<T>) { elementwise3<T, T, T, T>(loop, Backward<Op, T>{op}); });
}

#define BOCHNER_INSTANTIATE(Op, ...)                                                      \
  template void unary<bochner::unary::Op>(const bochner::unary::Op&, const Loop&, DType); \
  template void unary_backward<bochner::unary::Op>(const bochner::unary::Op&, const Loop&, DType);
BOCHNER_PLAIN_UNARY_OPS(BOCHNER_INSTANTIATE)
BOCHNER_PARAMETRIC_UNARY_OPS(BOCHNER_INSTANTIATE)

}  // namespace bochner::cuda
