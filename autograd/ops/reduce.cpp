#include "autograd/ops/reduce.h"

#include <algorithm>

#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "engine/bf16.h"
#include "engine/ops/reduce.h"
#include "engine/ops/softmax.h"

namespace bochner {
namespace {

/// `shape` with the reduced axes kept as 1; no axes: all of them.
Shape kept_shape(const Shape& shape, const Dims& axes) {
  Shape kept = axes.empty() ? Shape(Dims::filled(shape.rank(), 1)) : shape;
  for (const int64_t axis : axes) kept[static_cast<int>(axis)] = 1;
  return kept;
}

}  // namespace

// y = sum x:  dx = g repeated
Variable sum(const Variable& x, const Dims& axes, bool keep) {
  return record("sum", sum(x.value(), axes, keep), {&x}, [shape = x.shape(), axes](const Variable& g) {
    return Gradients{expand(reshape(g, kept_shape(shape, axes)), shape)};
  });
}

// y = 1/n sum x:  dx = g / n repeated
Variable mean(const Variable& x, const Dims& axes, bool keep) {
  const Tensor y = mean(x.value(), axes, keep);
  const double n = static_cast<double>(x.size()) / static_cast<double>(y.size());
  return record("mean", y, {&x}, [shape = x.shape(), axes, n](const Variable& g) {
    return Gradients{expand(reshape(g / n, kept_shape(shape, axes)), shape)};
  });
}

// y = max x:  dx = g / n where x = y, n such places
Variable amax(const Variable& x, const Dims& axes, bool keep) {
  const Tensor y = amax(x.value(), axes, keep);
  const Tensor top = y.reshape(kept_shape(x.shape(), axes));
  return record("amax", y, {&x}, [value = x.value(), top, axes](const Variable& g) {
    const Tensor places = equal(value, top).cast(value.dtype());
    const Tensor weights = places / sum(places, axes, true);
    return Gradients{expand(reshape(g, top.shape()), value.shape()) * Variable(weights)};
  });
}

Variable amin(const Variable& x, const Dims& axes, bool keep) { return -amax(-x, axes, keep); }

// y = softmax x:  dx = y (g - sum(g y))
Variable softmax(const Variable& x, int axis) {
  const Tensor y = softmax(x.value(), axis);
  return record("softmax", y, {&x}, [x, y, axis](const Variable& g) -> Gradients {
    if (Tape::current() == nullptr) return {softmax_backward(g.value(), y, axis)};
    const Variable again = softmax(x, axis);
    return {again * (g - sum(g * again, {axis}, true))};
  });
}

// y = ln sum e^x:  dx = g softmax(x)
Variable logsumexp(const Variable& x, int axis, bool keep) {
  return record("logsumexp", logsumexp(x.value(), axis, keep), {&x}, [x, axis](const Variable& g) {
    return Gradients{reshape(g, kept_shape(x.shape(), {axis})) * softmax(x, axis)};
  });
}

Variable log_softmax(const Variable& x, int axis) {
  if (x.size() == 0) return x - logsumexp(x, axis, true);
  const Variable wide = cast(x, compute_dtype(x.dtype()));
  const Variable shifted = wide - Variable(amax(wide.value(), {axis}, true));
  return cast(shifted - logsumexp(shifted, axis, true), x.dtype());
}

}  // namespace bochner
