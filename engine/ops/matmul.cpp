#include "engine/ops/matmul.h"

#include "engine/bf16.h"
#include "engine/kernel.h"
#include "engine/work.h"

namespace bochner {

// For each i: C_i (m x n, contiguous, one after the other) = A_i B_i, at element offsets a_offsets[i], b_offsets[i].
BOCHNER_KERNEL(kMatmul, "matmul", matmul, int64_t m, int64_t n, int64_t k, const Tensor& a, MatrixLayout a_layout,
               const std::vector<int64_t>& a_offsets, const Tensor& b, MatrixLayout b_layout,
               const std::vector<int64_t>& b_offsets, const Tensor& c);

namespace {

using Offsets = std::vector<int64_t>;

/// x as BLAS can read it, with stride 1 along one of the last two axes; a copy if neither has stride 1.
Tensor readable(const Tensor& x, MatrixLayout& layout) {
  const int64_t rows = x.size(-2);
  const int64_t columns = x.size(-1);
  const int64_t row_stride = x.strides()[-2];
  const int64_t column_stride = x.strides()[-1];
  if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
    layout = {false, rows == 1 ? std::max<int64_t>(columns, 1) : row_stride};
    return x;
  }
  if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) {
    layout = {true, columns == 1 ? std::max<int64_t>(rows, 1) : column_stride};
    return x;
  }
  layout = {false, std::max<int64_t>(columns, 1)};
  return x.clone();
}

/// Element offsets of the matrices of x, one for each place of the batch shape.
Offsets offsets(const Tensor& x, const Shape& batch) {
  Shape full = batch;
  full.push_back(x.size(-2));
  full.push_back(x.size(-1));
  const Dims strides = x.expand(full).strides();
  Offsets result(static_cast<size_t>(batch.size()), 0);
  for (int64_t i = 0; i < batch.size(); ++i) {
    int64_t index = i;
    for (int axis = batch.rank() - 1; axis >= 0; --axis) {
      result[static_cast<size_t>(i)] += index % batch[axis] * strides[axis];
      index /= batch[axis];
    }
  }
  return result;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.rank() < 2 || b.rank() < 2)
    fail("matmul: {} x {}: both need at least two axes", a.shape().str(), b.shape().str());
  if (a.size(-1) != b.size(-2)) {
    fail("matmul: {} x {}: inner sizes {} and {} differ", a.shape().str(), b.shape().str(), a.size(-1), b.size(-2));
  }
  if (a.dtype() != b.dtype()) fail("matmul: {} x {} differ in type; convert one with cast()", a.str(), b.str());
  if (must_convert(a)) return to_bf16(matmul(to_f32(a), to_f32(b)));
  int64_t m = a.size(-2);
  const int64_t n = b.size(-1);
  const int64_t k = a.size(-1);
  Shape batch = broadcast(a.shape().without_last(2), b.shape().without_last(2), "matmul");
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  Tensor c = Tensor::empty(shape, a.dtype(), a.device());
  if (c.size() == 0) return c;
  if (k == 0) {
    c.fill_(0);
    return c;
  }
  Tensor left = a;
  if (b.rank() == 2 && a.is_contiguous()) {  // one tall product instead of many
    m = a.size() / k;
    left = a.view({m, k});
    batch = {};
  }
  MatrixLayout left_layout{};
  MatrixLayout right_layout{};
  left = readable(left, left_layout);
  const Tensor right = readable(b, right_layout);
  work::add_flops(2.0 * static_cast<double>(c.size()) * static_cast<double>(k));
  kMatmul(a.device(), m, n, k, left, left_layout, offsets(left, batch), right, right_layout, offsets(right, batch), c);
  return c;
}

}  // namespace bochner
