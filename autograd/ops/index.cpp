#include "autograd/ops/index.h"

#include "autograd/ops/binary.h"
#include "autograd/tape.h"
#include "engine/ops/index.h"

namespace bochner {

// take and take_add, gather and scatter_add are linear, and each is the adjoint of the other.

Variable take(const Variable& x, const Tensor& index, int axis) {
  return record("take", take(x.value(), index, axis), {&x}, [index, axis, from = x.shape()](const Variable& g) {
    return Gradients{take_add(from, index, g, axis)};
  });
}

Variable take_add(const Shape& shape, const Tensor& index, const Variable& x, int axis) {
  return record("take_add", take_add(shape, index, x.value(), axis), {&x},
                [index, axis](const Variable& g) { return Gradients{take(g, index, axis)}; });
}

Variable gather(const Variable& x, int axis, const Tensor& index) {
  return record("gather", gather(x.value(), axis, index), {&x}, [index, axis, from = x.shape()](const Variable& g) {
    Shape wide = g.shape();  // the shape that x was broadcast to
    wide[axis] = from[axis];
    return Gradients{sum_to(scatter_add(wide, axis, index, g), from)};
  });
}

Variable scatter_add(const Shape& shape, int axis, const Tensor& index, const Variable& x) {
  return record(
      "scatter_add", scatter_add(shape, axis, index, x.value()), {&x},
      [index, axis, from = x.shape()](const Variable& g) { return Gradients{expand(gather(g, axis, index), from)}; });
}

}  // namespace bochner
