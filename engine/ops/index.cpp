#include "engine/ops/index.h"

#include "engine/kernel.h"
#include "engine/loop.h"

namespace bochner {

// An Error in the name of `op` unless every element of `index` (i64, contiguous) lies in [0, bound). On a card, an
// element out of range becomes an Error at the next read by the host, and the kernels that follow skip it.
BOCHNER_KERNEL(kCheckIndex, "index", check_index, const Tensor& index, int64_t bound, const char* op);
// Operands y, x, index (i64): y = x[index * stride], with x at index 0. `bytes` is the size of an element of x and y.
BOCHNER_KERNEL(kGather, "gather", gather, const Loop& loop, size_t bytes, int64_t stride);
// y[o, index[o, i, c], c] += source[o, i, c], i ascending.
BOCHNER_KERNEL(kScatterAdd, "scatter_add", scatter_add, const Scatter& scatter, const Tensor& index,
               const Tensor& source, const Tensor& y);
// y (size, classes), contiguous.
BOCHNER_KERNEL(kOneHot, "one_hot", one_hot, const Tensor& index, int64_t classes, const Tensor& y);

namespace {

void check(const Tensor& index, int64_t bound, Device device, const char* op) {
  if (index.dtype() != DType::i64)
    fail("{}: the index is {}; convert it to i64 with cast()", op, name_of(index.dtype()));
  require_on(device, op, index);
  kCheckIndex(device, index.contiguous(), bound, op);
}

Tensor gathered(const Shape& shape, const Tensor& first, const Tensor& index, int64_t stride) {
  const Tensor y = Tensor::empty(shape, first.dtype(), first.device());
  if (y.size() > 0) kGather(y.device(), make_loop("gather", {&y, &first, &index}), size_of(y.dtype()), stride);
  return y;
}

/// Shape of take's result.
Shape taken(const Shape& shape, int axis, const Shape& index) {
  Shape result;
  for (int a = 0; a < axis; ++a) result.push_back(shape[a]);
  for (const int64_t size : index) result.push_back(size);
  for (int a = axis + 1; a < shape.rank(); ++a) result.push_back(shape[a]);
  return result;
}

void add_into(const Tensor& y, const Scatter& scatter, const Tensor& index, const Tensor& source, const char* op) {
  if (source.dtype() != y.dtype())
    fail("{}: cannot add {} to {}; bring them to one type with cast()", op, source.str(), y.str());
  if (source.size() == 0) return;
  const Tensor terms = source.shares_storage(y) ? source.clone() : source.contiguous();
  const Tensor target = y.contiguous();
  target.overwritten();
  kScatterAdd(y.device(), scatter, index, terms, target);
  if (!y.is_contiguous()) y.copy_(target);
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& index, int axis) {
  axis = x.shape().checked(axis);
  check(index, x.size(axis), x.device(), "take");
  const Shape shape = taken(x.shape(), axis, index.shape());
  if (shape.size() == 0) return Tensor::empty(shape, x.dtype(), x.device());
  Tensor first = x.select(axis, 0);
  for (int i = 0; i < index.rank(); ++i) first = first.unsqueeze(axis);
  Tensor place = index;
  for (int a = axis + 1; a < x.rank(); ++a) place = place.unsqueeze(-1);
  return gathered(shape, first, place, x.strides()[axis]);
}

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  axis = x.shape().checked(axis);
  if (index.rank() != x.rank()) {
    fail("gather: {} with an index {}: equal ranks are needed; take() chooses whole slices", x.shape().str(),
         index.shape().str());
  }
  check(index, x.size(axis), x.device(), "gather");
  Shape one = x.shape();
  one[axis] = 1;
  const Shape shape = broadcast(one, index.shape(), "gather");
  if (shape.size() == 0) return Tensor::empty(shape, x.dtype(), x.device());
  return gathered(shape, x.slice(axis, 0, 1), index, x.strides()[axis]);
}

void take_add_(const Tensor& y, const Tensor& index, const Tensor& source, int axis) {
  axis = y.shape().checked(axis);
  check(index, y.size(axis), y.device(), "take_add");
  const Shape expected = taken(y.shape(), axis, index.shape());
  if (!(source.shape() == expected)) {
    fail("take_add: {} chosen along axis {} of {} make {}, but the terms are {}", index.shape().str(), axis,
         y.shape().str(), expected.str(), source.shape().str());
  }
  const Scatter scatter{
      y.shape().size(0, axis), y.size(axis), index.size(), y.shape().size(axis + 1, y.rank()), 0, 1, 0};
  add_into(y, scatter, index.contiguous(), source, "take_add");
}

void scatter_add_(const Tensor& y, int axis, const Tensor& index, const Tensor& source) {
  axis = y.shape().checked(axis);
  Shape expected = y.shape();
  if (source.rank() == y.rank()) expected[axis] = source.size(axis);
  if (!(source.shape() == expected)) {
    fail("scatter_add: terms {} for {}: sizes may differ along axis {} only", source.shape().str(), y.shape().str(),
         axis);
  }
  if (index.rank() != y.rank() || !broadcasts_to(index.shape(), source.shape())) {
    fail("scatter_add: an index {} does not broadcast to the terms {} axis by axis", index.shape().str(),
         source.shape().str());
  }
  check(index, y.size(axis), y.device(), "scatter_add");
  Shape chosen = source.shape();  // of the index; trailing axes of size 1 stay: whole rows
  bool whole_rows = true;
  for (int a = axis + 1; a < y.rank(); ++a) whole_rows = whole_rows && index.size(a) == 1;
  for (int a = axis + 1; a < y.rank() && whole_rows; ++a) chosen[a] = 1;
  const int64_t inner = y.shape().size(axis + 1, y.rank());
  const int64_t count = source.size(axis);
  const int64_t step = whole_rows ? 1 : inner;
  const Scatter scatter{y.shape().size(0, axis), y.size(axis), count, inner, count * step, step, whole_rows ? 0 : 1};
  add_into(y, scatter, index.expand(chosen).contiguous(), source, "scatter_add");
}

Tensor take_add(const Shape& shape, const Tensor& index, const Tensor& source, int axis) {
  if (source.dtype() == DType::bf16) return take_add(shape, index, source.cast(DType::f32), axis).cast(DType::bf16);
  const Tensor y = Tensor::zeros(shape, source.dtype(), source.device());
  take_add_(y, index, source, axis);
  return y;
}

Tensor scatter_add(const Shape& shape, int axis, const Tensor& index, const Tensor& source) {
  if (source.dtype() == DType::bf16) return scatter_add(shape, axis, index, source.cast(DType::f32)).cast(DType::bf16);
  const Tensor y = Tensor::zeros(shape, source.dtype(), source.device());
  scatter_add_(y, axis, index, source);
  return y;
}

Tensor one_hot(const Tensor& index, int64_t classes, DType dtype) {
  if (classes < 0) fail("one_hot: {} classes", classes);
  check(index, classes, index.device(), "one_hot");
  Shape shape = index.shape();
  shape.push_back(classes);
  const Tensor y = Tensor::empty(shape, dtype, index.device());
  if (y.size() > 0) kOneHot(y.device(), index.contiguous(), classes, y);
  return y;
}

}  // namespace bochner
