#include "autograd/ops/view.h"

#include <algorithm>

#include "autograd/op_info.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
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

Variable concat(const std::vector<Variable>& xs, int axis) {
  if (xs.empty()) fail("concat: nothing to join");
  Shape shape = xs[0].shape();
  shape[axis] = 0;
  for (const Variable& x : xs) {
    Shape other = x.shape();
    if (other.rank() != shape.rank()) fail("concat: {} and {} differ in rank", xs[0].shape().str(), other.str());
    const int64_t size = other[axis];
    other[axis] = shape[axis];
    if (!(other == shape)) fail("concat: {} and {} differ beside axis {}", xs[0].shape().str(), x.shape().str(), axis);
    if (x.dtype() != xs[0].dtype()) fail("concat: {} and {} differ in type", xs[0].value().str(), x.value().str());
    shape[axis] += size;
  }
  const Tensor y = Tensor::empty(shape, xs[0].dtype(), xs[0].device());
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (const Variable& x : xs) {
    y.slice(axis, end, end + x.size(axis)).copy_(x.value());
    end += x.size(axis);
    ends.push_back(end);
  }
  return record("concat", std::vector<Tensor>{y}, xs, [axis, ends](const Gradients& g) {
    Gradients parts;
    int64_t begin = 0;
    for (const int64_t stop : ends) {
      parts.push_back(slice(g[0], axis, begin, stop));
      begin = stop;
    }
    return parts;
  })[0];
}

Variable stack(const std::vector<Variable>& xs, int axis) {
  std::vector<Variable> raised;
  for (const Variable& x : xs) raised.push_back(unsqueeze(x, axis));
  return concat(raised, axis);
}

std::vector<Variable> unbind(const Variable& x, int axis) {
  const int at = x.shape().checked(axis);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < x.size(at); ++i) parts.push_back(x.value().select(at, i));
  return record("unbind", parts, {&x},
                [shape = x.shape(), dtype = x.dtype(), device = x.device(), at](const Gradients& g) {
                  Gradients present = g;
                  Shape part = shape;
                  part.erase(at);
                  for (Variable& gradient : present) {
                    if (!gradient.defined()) gradient = Tensor::zeros(part, dtype, device);
                  }
                  // What a fused attention gives back already lies as parts of one tensor.
                  if (Tape::current() == nullptr) {
                    std::vector<Tensor> values;
                    for (const Variable& gradient : present) values.push_back(gradient.value());
                    if (Tensor whole = Tensor::unselect(values, at); whole.defined()) return Gradients{whole};
                  }
                  return Gradients{stack(present, at)};
                });
}

Variable pad(const Variable& x, int axis, int64_t before, int64_t after) {
  if (before < 0 || after < 0) fail("pad: {} before and {} after must not be negative", before, after);
  Shape shape = x.shape();
  shape[axis] += before + after;
  return embed_slice(x, shape, axis, before);
}

namespace {

OpInfo describe(const char* name, const char* equation, const std::vector<Shape>& shapes,
                const std::function<Variable(const Variable&)>& f) {
  OpInfo info{name, equation, "", {}, {}};
  uint64_t seed = 900;
  for (const Shape& shape : shapes) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      info.samples.push_back({label, {x}, [f](const std::vector<Variable>& in) { return f(in[0]); }});
    }
  }
  return info;
}

}  // namespace

void describe_view(OpInfos& infos) {
  const std::vector<Shape> matrices = {{2, 3}, {1, 1}, {5, 7}, {0, 3}, {3, 0}, {4, 2}, {3, 1}, {6, 5}};
  const auto zeros = [](const Shape& shape) { return Variable(Tensor::zeros(shape)); };
  infos.push_back(describe("reshape", "the same elements in row-major order", matrices, [](const Variable& x) {
    return square(reshape(x, {x.size(1), x.size(0), 1}));
  }));
  infos.back().refused = {[zeros] { reshape(zeros({2, 3}), {4}); }};
  infos.push_back(describe("permute", "y[i_p(1), ..., i_p(n)] = x[i_1, ..., i_n]",
                           {{2, 3, 2}, {1, 1, 1}, {0, 2, 3}, {3, 5, 1}, {2, 2, 7}}, [](const Variable& x) {
                             return square(permute(x, {2, 0, 1}));
                           }));
  infos.back().refused = {[zeros] { permute(zeros({2, 3}), {0, 0}); }, [zeros] { permute(zeros({2, 3}), {0}); }};
  infos.push_back(describe("transpose", "y[.., j, .., i, ..] = x[.., i, .., j, ..]", matrices,
                           [](const Variable& x) { return square(transpose(x, 0, 1)); }));
  infos.back().refused = {[zeros] { transpose(zeros({2, 3}), 0, 2); }};
  infos.push_back(describe("slice", "y[i] = x[begin + step i]",
                           {{5, 3}, {5}, {9, 1}, {7, 0}, {6, 2, 2}, {8, 3}, {5, 1, 1}},
                           [](const Variable& x) { return square(slice(x, 0, 1, 5, 2)); }));
  infos.back().refused = {[zeros] { slice(zeros({3}), 0, 2, 1); }, [zeros] { slice(zeros({3}), 0, 0, 4); }};
  infos.push_back(describe("embed_slice", "y[begin + step i] = x[i], else 0",
                           {{2, 3}, {2}, {2, 1}, {2, 0}, {2, 5, 2}, {2, 2}, {2, 7}}, [](const Variable& x) {
                             Shape shape = x.shape();
                             shape[0] = 6;
                             return square(embed_slice(x, shape, 0, 1, 3));
                           }));
  infos.back().refused = {[zeros] { embed_slice(zeros({3}), {4}, 0, 2); }};
  infos.push_back(describe("contiguous", "y = x", matrices, [](const Variable& x) { return square(contiguous(x)); }));
  infos.push_back(describe("cast", "y = x in another type", matrices,
                           [](const Variable& x) { return square(cast(x, DType::f64)); }));
  infos.push_back(describe("concat", "y = (x_1, ..., x_n) along an axis", matrices, [](const Variable& x) {
    return square(concat({x, x * 2, slice(x, 1, 0, x.size(1) / 2)}, 1));
  }));
  infos.back().refused = {[zeros] { concat({zeros({2, 3}), zeros({3, 3})}, 1); }, [] { concat({}, 0); }};
  infos.push_back(describe("stack", "y = (x_1, ..., x_n) along a new axis", matrices, [](const Variable& x) {
    return square(stack({x, x * 2}, 1));
  }));
  infos.push_back(describe("unbind", "y_i = x[i]", {{2, 3}, {2, 1}, {2, 7}, {2, 2, 3}, {2, 0}, {2, 4}, {2, 5, 1}},
                           [](const Variable& x) {
                             const std::vector<Variable> parts = unbind(x, 0);
                             return square(parts[0]) * 2 + parts[1];
                           }));
  infos.back().refused = {[zeros] { unbind(zeros({2}), 1); }};
  infos.push_back(describe("pad", "y = (0, x, 0) along an axis", matrices,
                           [](const Variable& x) { return square(pad(x, 1, 2, 1)); }));
  infos.back().refused = {[zeros] { pad(zeros({2}), 0, -1, 0); }};
}

}  // namespace bochner
