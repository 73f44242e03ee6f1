#include "autograd/ops/join.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/ops/join.h"

namespace bochner {
namespace {

std::vector<Tensor> values_of(const std::vector<Variable>& xs) {
  std::vector<Tensor> values;
  values.reserve(xs.size());
  for (const Variable& x : xs) values.push_back(x.value());
  return values;
}

}  // namespace

// y = (x_1, ..., x_n):  dx_t = the part of g at the position of x_t
Variable concat(const std::vector<Variable>& xs, int axis) {
  const Tensor y = concat(values_of(xs), axis);
  std::vector<int64_t> sizes;
  for (const Variable& x : xs) sizes.push_back(x.size(axis));
  const auto backward = [axis, sizes](const Gradients& g) {
    Gradients parts;
    int64_t begin = 0;
    for (const int64_t size : sizes) {
      parts.push_back(slice(g[0], axis, begin, begin + size));
      begin += size;
    }
    return parts;
  };
  return record("concat", std::vector<Tensor>{y}, xs, backward)[0];
}

// y[.., t, ..] = x_t:  dx_t = g[.., t, ..]
Variable stack(const std::vector<Variable>& xs, int axis) {
  const Tensor y = stack(values_of(xs), axis);
  const auto backward = [at = y.shape().checked(axis)](const Gradients& g) { return unbind(g[0], at); };
  return record("stack", std::vector<Tensor>{y}, xs, backward)[0];
}

// y_t = x[.., t, ..]:  dx = (g_1, ..., g_n), 0 for those that nothing depends on
std::vector<Variable> unbind(const Variable& x, int axis) {
  const int at = x.shape().checked(axis);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < x.size(at); ++i) parts.push_back(x.value().select(at, i));
  if (parts.empty()) return {};
  const auto backward = [shape = x.shape(), dtype = x.dtype(), device = x.device(), at](const Gradients& g) {
    Gradients present = g;
    Shape part = shape;
    part.erase(at);
    for (Variable& gradient : present) {
      if (!gradient.defined()) gradient = Tensor::zeros(part, dtype, device);
    }
    // The gradients of a fused attention are parts of one tensor already.
    if (Tape::current() == nullptr) {
      if (Tensor whole = Tensor::unselect(values_of(present), at); whole.defined()) return Gradients{whole};
    }
    return Gradients{stack(present, at)};
  };
  return record("unbind", parts, {&x}, backward);
}

// y = x within a frame:  dx = g within it
Variable pad(const Variable& x, const Dims& before, const Dims& after, double value) {
  const auto backward = [before, shape = x.shape()](const Variable& g) {
    Variable dx = g;
    for (int axis = 0; axis < shape.rank(); ++axis) dx = slice(dx, axis, before[axis], before[axis] + shape[axis]);
    return Gradients{dx};
  };
  return record("pad", pad(x.value(), before, after, value), {&x}, backward);
}

}  // namespace bochner
