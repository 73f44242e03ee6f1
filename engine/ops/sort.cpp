#include "engine/ops/sort.h"

#include "engine/kernel.h"

namespace bochner {

// The first k in order of each row of x (rows, columns): values and indices (rows, k); all contiguous, 1 <= k <=
// columns.
BOCHNER_KERNEL(kSort, "sort", sort, int64_t rows, int64_t columns, int64_t k, bool descending, const Tensor& x,
               const Tensor& values, const Tensor& indices);
// The first place of the largest or smallest element of each row.
BOCHNER_KERNEL(kArgmax, "argmax", argmax, int64_t rows, int64_t columns, bool largest, const Tensor& x,
               const Tensor& places);

namespace {

/// The first k of each row in order, on views with `axis` last.
Ordered first(const Tensor& x, int64_t k, int axis, bool descending, const char* op) {
  require_numeric(x.dtype(), op);
  const Tensor rows = x.transpose(axis, -1).contiguous();
  const Shape shape = rows.shape().with_last(k);
  const Tensor values = Tensor::empty(shape, x.dtype(), x.device());
  const Tensor indices = Tensor::empty(shape, DType::i64, x.device());
  if (values.size() > 0) kSort(x.device(), values.size() / k, rows.size(-1), k, descending, rows, values, indices);
  return {values.transpose(axis, -1), indices.transpose(axis, -1)};
}

Tensor extreme(const Tensor& x, int axis, bool keep, bool largest, const char* op) {
  require_numeric(x.dtype(), op);
  if (x.size(axis) == 0) fail("{}: axis {} of {} is empty", op, axis, x.shape().str());
  const Tensor rows = x.transpose(axis, -1).contiguous();
  const Tensor places = Tensor::empty(rows.shape().with_last(1), DType::i64, x.device());
  if (places.size() > 0) kArgmax(x.device(), places.size(), rows.size(-1), largest, rows, places);
  const Tensor placed = places.transpose(axis, -1);
  return keep ? placed : placed.squeeze(axis);
}

}  // namespace

Ordered sort(const Tensor& x, int axis, bool descending) { return first(x, x.size(axis), axis, descending, "sort"); }

Tensor argsort(const Tensor& x, int axis, bool descending) {
  return first(x, x.size(axis), axis, descending, "argsort").indices;
}

Ordered topk(const Tensor& x, int64_t k, int axis) {
  if (k < 0 || k > x.size(axis))
    fail("topk: {} of axis {} of {}, which has {}", k, axis, x.shape().str(), x.size(axis));
  return first(x, k, axis, true, "topk");
}

Tensor argmax(const Tensor& x, int axis, bool keep) { return extreme(x, axis, keep, true, "argmax"); }

Tensor argmin(const Tensor& x, int axis, bool keep) { return extreme(x, axis, keep, false, "argmin"); }

}  // namespace bochner
