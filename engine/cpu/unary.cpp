#include "engine/ops/unary.h"
#include "engine/cpu/parts/rows.h"

namespace bochner::cpu {

template <class Op>
void unary(const Op& op, const Loop& loop, DType dtype) {
  visit_floating(dtype, Op::name, [&]<class T>(TypeTag<T>) {
    for_each_row<2>(loop, [&](const Row<2>& row) {
      T* y = loop.at<T>(0) + row.offsets[0];
      const T* x = loop.at<T>(1) + row.offsets[1];
      const auto [sy, sx] = row.strides;
      if (row.contiguous()) {
#pragma omp simd
        for (int64_t i = 0; i < row.size; ++i) y[i] = op.forward(x[i]);
      } else {
        for (int64_t i = 0; i < row.size; ++i) y[i * sy] = op.forward(x[i * sx]);
      }
    });
  });
}

template <class Op>
void unary_backward(const Op& op, const Loop& loop, DType dtype) {
  visit_floating(dtype, Op::name, [&]<class T>(TypeTag<T>) {
    for_each_row<4>(loop, [&](const Row<4>& row) {
      T* dx = loop.at<T>(0) + row.offsets[0];
      const T* g = loop.at<T>(1) + row.offsets[1];
      const T* x = loop.at<T>(2) + row.offsets[2];
      const T* y = loop.at<T>(3) + row.offsets[3];
      const auto [sd, sg, sx, sy] = row.strides;
      if (row.contiguous()) {
#pragma omp simd
        for (int64_t i = 0; i < row.size; ++i) dx[i] = g[i] * op.derivative(x[i], y[i]);
      } else {
        for (int64_t i = 0; i < row.size; ++i) dx[i * sd] = g[i * sg] * op.derivative(x[i * sx], y[i * sy]);
      }
    });
  });
}

#define BOCHNER_INSTANTIATE(Op, ...)                                                      \
  template void unary<bochner::unary::Op>(const bochner::unary::Op&, const Loop&, DType); \
  template void unary_backward<bochner::unary::Op>(const bochner::unary::Op&, const Loop&, DType);
BOCHNER_PLAIN_UNARY_OPS(BOCHNER_INSTANTIATE)
BOCHNER_PARAMETRIC_UNARY_OPS(BOCHNER_INSTANTIATE)

}  // namespace bochner::cpu
