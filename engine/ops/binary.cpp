#include "engine/ops/binary.h"

#include "engine/kernel.h"
#include "engine/loop.h"
#include "engine/ops/copy.h"
#include "engine/ops/reduce.h"

namespace bochner {

namespace cpu {
/// Operands: z, a, b.
template <class Op>
void binary(const Op& op, const Loop& loop, DType dtype);
}  // namespace cpu
namespace cuda {
/// Operands: z, a, b.
template <class Op>
void binary(const Op& op, const Loop& loop, DType dtype);
}  // namespace cuda

// Operands: z, condition, a, b.
BOCHNER_KERNEL(kWhere, "where", where, const Loop& loop, DType dtype);

namespace {

template <class Op>
constexpr Kernel kBinary{Op::name, &cpu::binary<Op>, CUDA_KERNEL(binary<Op>)};

void require_alike(const char* op, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) fail("{}: {} and {} differ in type; convert one with cast()", op, a.str(), b.str());
}

}  // namespace

/// Integers that have no quotient stop the processor. On a card they do not, and nothing waits for a check.
void require_quotients(const Tensor& a, const Tensor& b) {
  const auto any = [](const Tensor& is) { return is.size() > 0 && amax(is.cast(DType::i64)).item() > 0; };
  if (any(equal(b, 0))) fail("div: {} is divided by {}, which holds 0", a.str(), b.str());
  const double least = a.dtype() == DType::i32 ? std::numeric_limits<int32_t>::min()
                                               : static_cast<double>(std::numeric_limits<int64_t>::min());
  if (any(equal(b, -1)) && any(equal(a, least))) fail("div: {} holds the least integer, over -1", a.str());
}

template <class Op>
Tensor apply(const Op& op, const Tensor& a, const Tensor& b) {
  require_alike(Op::name, a, b);
  if constexpr (std::is_same_v<Op, binary::Div>) {
    if (!is_floating(a.dtype()) && a.device().is_cpu()) require_quotients(a, b);
  }
  constexpr bool compares = std::is_same_v<decltype(op.forward(0.0, 0.0)), bool>;
  Tensor z =
      Tensor::empty(broadcast(a.shape(), b.shape(), Op::name), compares ? DType::boolean : a.dtype(), a.device());
  kBinary<Op>(a.device(), op, make_loop(Op::name, {&z, &a, &b}), a.dtype());
  return z;
}

void add_(const Tensor& to, const Tensor& x) {
  require_alike("add_", to, x);
  if (!broadcasts_to(x.shape(), to.shape()))
    fail("add_: {} does not broadcast to {}", x.shape().str(), to.shape().str());
  const Tensor added = apart_from(x, to);
  const Loop loop = make_loop("add_", {&to, &to, &added});
  to.overwritten();
  kBinary<binary::Add>(to.device(), binary::Add{}, loop, to.dtype());
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require_alike("where", a, b);
  if (condition.dtype() != DType::boolean)
    fail("where: the condition must be bool, got {}", name_of(condition.dtype()));
  const Shape shape = broadcast(condition.shape(), broadcast(a.shape(), b.shape(), "where"), "where");
  Tensor z = Tensor::empty(shape, a.dtype(), a.device());
  kWhere(a.device(), make_loop("where", {&z, &condition, &a, &b}), a.dtype());
  return z;
}

#define BOCHNER_INSTANTIATE(Op, function) \
  template Tensor apply<binary::Op>(const binary::Op&, const Tensor&, const Tensor&);
BOCHNER_BINARY_OPS(BOCHNER_INSTANTIATE)
#undef BOCHNER_INSTANTIATE

}  // namespace bochner
