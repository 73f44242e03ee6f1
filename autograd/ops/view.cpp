#include "autograd/ops/view.h"

#include <algorithm>

#include "autograd/ops/binary.h"
#include "autograd/tape.h"

namespace bochner {

Variable reshape(const Variable& x, const Shape& shape) {
  return record("reshape", x.value().reshape(shape), {&x},
                [from = x.shape()](const Variable& g) { return Gradients{reshape(g, from)}; });
}

Variable permute(const Variable& x, const Dims& axes) {
  Dims inverse = Dims::filled(axes.rank(), 0);
  const Tensor y = x.value().permute(axes);
  for (int i = 0; i < axes.rank(); ++i) inverse[x.shape().checked(static_cast<int>(axes[i]))] = i;
  return record("permute", y, {&x}, [inverse](const Variable& g) { return Gradients{permute(g, inverse)}; });
}

Variable transpose(const Variable& x, int a, int b) {
  return record("transpose", x.value().transpose(a, b), {&x},
                [a, b](const Variable& g) { return Gradients{transpose(g, a, b)}; });
}

Variable slice(const Variable& x, int axis, int64_t begin, int64_t end, int64_t step) {
  return record("slice", x.value().slice(axis, begin, end, step), {&x},
                [from = x.shape(), axis, begin, step](const Variable& g) {
                  return Gradients{embed_slice(g, from, axis, begin, step)};
                });
}

Variable embed_slice(const Variable& x, const Shape& shape, int axis, int64_t begin, int64_t step) {
  const Tensor y = Tensor::zeros(shape, x.dtype(), x.device());
  const int64_t end = x.size(axis) == 0 ? begin : begin + (x.size(axis) - 1) * step + 1;
  y.slice(axis, begin, end, step).copy_(x.value());
  return record("embed_slice", y, {&x},
                [axis, begin, end, step](const Variable& g) { return Gradients{slice(g, axis, begin, end, step)}; });
}

Variable select(const Variable& x, int axis, int64_t index) {
  const int64_t at = index < 0 ? index + x.size(axis) : index;
  if (at < 0 || at >= x.size(axis)) fail("select: index {} lies outside axis {} of {}", index, axis, x.shape().str());
  return squeeze(slice(x, axis, at, at + 1), axis);
}

Variable unsqueeze(const Variable& x, int axis) { return reshape(x, x.value().unsqueeze(axis).shape()); }

Variable squeeze(const Variable& x, int axis) { return reshape(x, x.value().squeeze(axis).shape()); }

Variable contiguous(const Variable& x) {
  return record("contiguous", x.value().contiguous(), {&x}, [](const Variable& g) { return Gradients{g}; });
}

Variable cast(const Variable& x, DType dtype) {
  return record("cast", x.value().cast(dtype), {&x},
                [from = x.dtype()](const Variable& g) { return Gradients{cast(g, from)}; });
}

}  // namespace bochner
