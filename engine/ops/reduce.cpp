#include "engine/ops/reduce.h"

#include <array>

#include "engine/bf16.h"
#include "engine/kernel.h"
#include "engine/ops/unary.h"

namespace bochner {

// x is contiguous (outer, count, inner); y is contiguous (outer, inner).
// The order of a sum follows from the sizes alone, on a card too.
BOCHNER_KERNEL(kReduce, "reduce", reduce, Reducer op, int64_t outer, int64_t count, int64_t inner, const Tensor& x,
               const Tensor& y);

namespace {

std::array<bool, Dims::kMaxRank> chosen(const Tensor& x, const Dims& axes) {
  std::array<bool, Dims::kMaxRank> reduced{};
  for (int axis = 0; axis < x.rank() && axes.empty(); ++axis) reduced[static_cast<size_t>(axis)] = true;
  for (const int64_t axis : axes) reduced[static_cast<size_t>(x.shape().checked(static_cast<int>(axis)))] = true;
  return reduced;
}

Tensor reduce(Reducer op, const Tensor& x, const Dims& axes, bool keep) {
  if (must_convert(x)) return to_bf16(reduce(op, to_f32(x), axes, keep));
  const auto reduced = chosen(x, axes);
  Shape kept;  // with reduced axes of size 1
  Shape result;
  Dims order;  // kept axes, then reduced ones
  int first = -1;
  int last = -1;
  bool adjacent = true;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool is_reduced = reduced[static_cast<size_t>(axis)];
    kept.push_back(is_reduced ? 1 : x.size(axis));
    if (!is_reduced) {
      result.push_back(x.size(axis));
      order.push_back(axis);
      continue;
    }
    adjacent = adjacent && (last < 0 || last == axis - 1);
    if (first < 0) first = axis;
    last = axis;
  }
  Tensor y = Tensor::empty(keep ? kept : result, x.dtype(), x.device());
  if (y.size() == 0) return y;
  const int64_t count = x.size() / y.size();
  if (first < 0) {
    y.copy_(x.view(y.shape()));
    return y;
  }
  int64_t inner = 1;
  Tensor source = x;
  if (adjacent) {
    inner = x.shape().size(last + 1, x.rank());
  } else {
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (reduced[static_cast<size_t>(axis)]) order.push_back(axis);
    }
    source = x.permute(order);
  }
  kReduce(x.device(), op, y.size() / inner, count, inner, source.contiguous(), y);
  return y;
}

void require_elements(const char* op, const Tensor& x, const Dims& axes) {
  const auto reduced = chosen(x, axes);
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (reduced[static_cast<size_t>(axis)] && x.size(axis) == 0)
      fail("{}: axis {} of {} is empty", op, axis, x.shape().str());
  }
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& axes, bool keep) { return reduce(Reducer::sum, x, axes, keep); }

Tensor mean(const Tensor& x, const Dims& axes, bool keep) {
  if (must_convert(x)) return to_bf16(mean(to_f32(x), axes, keep));
  const Tensor total = sum(x, axes, keep);
  return total / (static_cast<double>(x.size()) / static_cast<double>(total.size()));
}

Tensor amax(const Tensor& x, const Dims& axes, bool keep) {
  require_elements("amax", x, axes);
  return reduce(Reducer::max, x, axes, keep);
}

Tensor amin(const Tensor& x, const Dims& axes, bool keep) {
  require_elements("amin", x, axes);
  return reduce(Reducer::min, x, axes, keep);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (!broadcasts_to(shape, x.shape())) fail("sum_to: {} does not broadcast to {}", shape.str(), x.shape().str());
  Dims axes;
  for (int i = 1; i <= x.rank(); ++i) {
    if (i > shape.rank() || (shape[-i] == 1 && x.size(-i) != 1)) axes.push_back(x.rank() - i);
  }
  return (axes.empty() ? x : sum(x, axes, true)).reshape(shape);
}

}  // namespace bochner
