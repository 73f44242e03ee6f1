#include "engine/ops/binary.h"
#include "engine/cpu/parts/rows.h"

namespace bochner::cpu {
namespace {

template <class T, class Op>
void binary_rows(const Op& op, const Loop& loop) {
  using Result = decltype(op.forward(T{}, T{}));
  for_each_row<3>(loop, [&](const Row<3>& row) {
    Result* z = loop.at<Result>(0) + row.offsets[0];
    const T* a = loop.at<T>(1) + row.offsets[1];
    const T* b = loop.at<T>(2) + row.offsets[2];
    const auto [sz, sa, sb] = row.strides;
    if (row.contiguous()) {
      for (int64_t i = 0; i < row.size; ++i) z[i] = op.forward(a[i], b[i]);
    } else if (sz == 1 && sa == 1 && sb == 0) {
      const T constant = *b;
      for (int64_t i = 0; i < row.size; ++i) z[i] = op.forward(a[i], constant);
    } else if (sz == 1 && sa == 0 && sb == 1) {
      const T constant = *a;
      for (int64_t i = 0; i < row.size; ++i) z[i] = op.forward(constant, b[i]);
    } else {
      for (int64_t i = 0; i < row.size; ++i) z[i * sz] = op.forward(a[i * sa], b[i * sb]);
    }
  });
}

}  // namespace

template <class Op>
void binary(const Op& op, const Loop& loop, DType dtype) {
  if constexpr (std::is_same_v<Op, bochner::binary::Pow>) {
    visit_floating(dtype, Op::name, [&]<class T>(TypeTag<T>) { binary_rows<T>(op, loop); });
  } else {
    visit_numeric(dtype, Op::name, [&]<class T>(TypeTag<T>) { binary_rows<T>(op, loop); });
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
      for (int64_t i = 0; i < row.size; ++i) z[i * sz] = condition[i * sc] ? a[i * sa] : b[i * sb];
    });
  });
}

#define BOCHNER_INSTANTIATE(Op, function) \
  template void binary<bochner::binary::Op>(const bochner::binary::Op&, const Loop&, DType);
BOCHNER_BINARY_OPS(BOCHNER_INSTANTIATE)

}  // namespace bochner::cpu
