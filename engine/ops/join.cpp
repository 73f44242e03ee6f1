#include "engine/ops/join.h"

namespace bochner {
namespace {

int64_t checked_add(int64_t a, int64_t b, const char* op) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail("{}: sizes {} and {} together overflow 64 bits", op, a, b);
  return sum;
}

}  // namespace

Tensor concat(const std::vector<Tensor>& tensors, int axis) {
  if (tensors.empty()) fail("concat: no tensor given; at least one is needed");
  const Tensor& first = tensors.front();
  axis = first.shape().checked(axis);
  Shape shape = first.shape();
  shape[axis] = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const Tensor& x = tensors[t];
    Shape expected = first.shape();
    if (x.rank() == first.rank()) expected[axis] = x.size(axis);
    if (!(x.shape() == expected)) {
      fail("concat: tensor {} is {}, tensor 0 is {}: sizes may differ along axis {} only", t, x.shape().str(),
           first.shape().str(), axis);
    }
    if (x.dtype() != first.dtype() || x.device() != first.device()) {
      fail("concat: tensor {} is {}, tensor 0 is {}; bring them to one type and device with cast() and to()", t,
           x.str(), first.str());
    }
    shape[axis] = checked_add(shape[axis], x.size(axis), "concat");
  }
  const Tensor y = Tensor::empty(shape, first.dtype(), first.device());
  int64_t offset = 0;
  for (const Tensor& x : tensors) {
    y.slice(axis, offset, offset + x.size(axis)).copy_(x);
    offset += x.size(axis);
  }
  return y;
}

Tensor stack(const std::vector<Tensor>& tensors, int axis) {
  if (tensors.empty()) fail("stack: no tensor given; at least one is needed");
  std::vector<Tensor> layers;
  layers.reserve(tensors.size());
  for (const Tensor& x : tensors) {
    if (!(x.shape() == tensors.front().shape())) {
      fail("stack: tensor {} is {}, tensor 0 is {}: shapes must be equal", layers.size(), x.shape().str(),
           tensors.front().shape().str());
    }
    layers.push_back(x.unsqueeze(axis));
  }
  return concat(layers, axis);
}

Tensor pad(const Tensor& x, const Dims& before, const Dims& after, double value) {
  if (before.rank() != x.rank() || after.rank() != x.rank()) {
    fail("pad: {} before and {} after for {}: one number per axis is needed", before.str(), after.str(),
         x.shape().str());
  }
  Shape shape = x.shape();
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (before[axis] < 0 || after[axis] < 0) {
      fail("pad: {} before and {} after: axis {} is negative; use slice to cut off", before.str(), after.str(), axis);
    }
    shape[axis] = checked_add(checked_add(before[axis], x.size(axis), "pad"), after[axis], "pad");
  }
  const Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  // Fills the frame axis by axis: what lies outside x along this axis, and inside x along the axes before it.
  Tensor inside = y;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t end = before[axis] + x.size(axis);
    inside.slice(axis, 0, before[axis]).fill_(value);
    inside.slice(axis, end, shape[axis]).fill_(value);
    inside = inside.slice(axis, before[axis], end);
  }
  inside.copy_(x);
  return y;
}

}  // namespace bochner
