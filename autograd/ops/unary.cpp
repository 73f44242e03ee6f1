#include "autograd/ops/unary.h"

#include "autograd/ops/binary.h"

namespace bochner {

template <class Op>
Variable apply(const Op& op, const Variable& x) {
  const Tensor y = apply(op, x.value());
  return record(Op::name, y, {&x}, [op, x, y](const Variable& g) -> Gradients {
    if (Tape::current() == nullptr) return {apply_backward(op, g.value(), x.value(), y)};
    const Variable again =
        apply(op, x);  // on the tape, so that derivative(x, y) can be differentiated through y as well
    return {g * op.derivative(x, again)};
  });
}

#define BOCHNER_INSTANTIATE(Op, ...) template Variable apply<unary::Op>(const unary::Op&, const Variable&);
BOCHNER_PLAIN_UNARY_OPS(BOCHNER_INSTANTIATE)
BOCHNER_PARAMETRIC_UNARY_OPS(BOCHNER_INSTANTIATE)
#undef BOCHNER_INSTANTIATE

}  // namespace bochner
