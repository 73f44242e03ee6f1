#include "engine/ops/binary.h"

#include <algorithm>

#include "engine/bf16.h"
#include "engine/cpu/parts/rows.h"

namespace bochner::cpu {
namespace {

/// S is the type in memory of a, b and, unless it compares, z.
template <class S, class Op>
void binary_rows(const Op& op, const Loop& loop) {
  using T = ComputeType<S>;
  using Result = std::conditional_t<std::is_same_v<decltype(op.forward(T{}, T{})), bool>, bool, S>;
  for_each_row<3>(loop, [&](const Row<3>& row) {
    Result* z = loop.at<Result>(0) + row.offsets[0];
    const S* a = loop.at<S>(1) + row.offsets[1];
    const S* b = loop.at<S>(2) + row.offsets[2];
    const auto [sz, sa, sb] = row.strides;
    const auto of = [&](S x, S y) { return Result(op.forward(static_cast<T>(x), static_cast<T>(y))); };
    if (row.contiguous()) {
      for (int64_t i = 0; i < row.size; ++i) z[i] = of(a[i], b[i]);
    } else if (sz == 1 && sa == 1 && sb == 0) {
      const S constant = *b;
      for (int64_t i = 0; i < row.size; ++i) z[i] = of(a[i], constant);
    } else if (sz == 1 && sa == 0 && sb == 1) {
      const S constant = *a;
      for (int64_t i = 0; i < row.size; ++i) z[i] = of(constant, b[i]);
    } else {
      for (int64_t i = 0; i < row.size; ++i) z[i * sz] = of(a[i * sa], b[i * sb]);
    }
  });
}

}  // namespace

template <class Op>
void binary(const Op& op, const Loop& loop, DType dtype) {
  const auto run = [&]<class S>(TypeTag<S>) { binary_rows<S>(op, loop); };
  if (dtype == DType::bf16) return run(TypeTag<bfloat16>{});
  if constexpr (std::is_same_v<Op, bochner::binary::Pow>) {
    visit_floating(dtype, Op::name, run);
  } else {
    visit_numeric(dtype, Op::name, run);
  }
}

void where(const Loop& loop, DType dtype) {
  visit_all(dtype, [&]<class T>(TypeTag<T>) {
    for_each_row<4>(loop, [&](const Row<4>& row) {
      T* z = loop.at<T>(0) + row.offsets[0];
      const bool* condition = loop.at<bool>(1) + row.offsets[1];
      const T* a = loop.at<T>(2) + row.offsets[2];
      const T* b = loop.at<T>(3) + row.offsets[3];
      const auto [sz, sc, sa, sb] = row.strides;
      if (sz == 1 && sc == 0) {  // as when a mask hides whole vectors
        const T* const from = *condition ? a : b;
        const int64_t stride = *condition ? sa : sb;
        if (stride == 1) {
          std::copy_n(from, row.size, z);
        } else {
          for (int64_t i = 0; i < row.size; ++i) z[i] = from[i * stride];
        }
      } else if (sz == 1 && sc == 1 && sa == 1 && sb == 0) {
        const T constant = *b;
        for (int64_t i = 0; i < row.size; ++i) z[i] = condition[i] ? a[i] : constant;
      } else {
        for (int64_t i = 0; i < row.size; ++i) z[i * sz] = condition[i * sc] ? a[i * sa] : b[i * sb];
      }
    });
  });
}

#define BOCHNER_INSTANTIATE(Op, function) \
  template void binary<bochner::binary::Op>(const bochner::binary::Op&, const Loop&, DType);
BOCHNER_BINARY_OPS(BOCHNER_INSTANTIATE)

}  // namespace bochner::cpu
