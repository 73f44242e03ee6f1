#include "engine/bf16.h"
#include "engine/cuda/parts/elementwise.h"
#include "engine/ops/binary.h"

namespace bochner::cuda {
namespace {

template <class Op, class T, class R>
struct Apply {
  Op op;
  BOCHNER_DEVICE R operator()(T a, T b) const {
    return static_cast<R>(op.forward(static_cast<ComputeType<T>>(a), static_cast<ComputeType<T>>(b)));
  }
};

struct Choose {
  template <class T>
  BOCHNER_DEVICE T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

template <class T, class Op>
void apply(const Op& op, const Loop& loop) {
  using Found = decltype(op.forward(ComputeType<T>{}, ComputeType<T>{}));
  using R = std::conditional_t<std::is_same_v<Found, bool>, bool, T>;
  elementwise2<R, T, T>(loop, Apply<Op, T, R>{op});
}

}  // namespace

template <class Op>
void binary(const Op& op, const Loop& loop, DType dtype) {
  if constexpr (std::is_same_v<Op, bochner::binary::Pow>) {
    visit_stored(dtype, Op::name, [&]<class T>(TypeTag<T>) { apply<T>(op, loop); });
  } else if (dtype == DType::bf16) {
    apply<bfloat16>(op, loop);
  } else {
    visit_numeric(dtype, Op::name, [&]<class T>(TypeTag<T>) { apply<T>(op, loop); });
  }
}

// Elements are only moved, so only their size matters.
void where(const Loop& loop, DType dtype) {
  switch (size_of(dtype)) {
    case 1:
      return elementwise3<uint8_t, bool, uint8_t, uint8_t>(loop, Choose{});
    case 2:
      return elementwise3<uint16_t, bool, uint16_t, uint16_t>(loop, Choose{});
    case 4:
      return elementwise3<uint32_t, bool, uint32_t, uint32_t>(loop, Choose{});
    default:
      return elementwise3<uint64_t, bool, uint64_t, uint64_t>(loop, Choose{});
  }
}

#define BOCHNER_INSTANTIATE(Op, function) \
  template void binary<bochner::binary::Op>(const bochner::binary::Op&, const Loop&, DType);
BOCHNER_BINARY_OPS(BOCHNER_INSTANTIATE)

}  // namespace bochner::cuda
