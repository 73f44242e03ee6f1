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
                           {{5, 3}, {5}, {9, 1}, {7, 0}, {6, 2, 2}, {8, 3}, {5, 1, 1}, {1}, {1, 1}},
                           [](const Variable& x) {
                             const bool one = x.size(0) == 1;
                             return square(slice(x, 0, one ? 0 : 1, one ? 1 : 5, 2));
                           }));
  infos.back().refused = {[zeros] { slice(zeros({3}), 0, 2, 1); }, [zeros] { slice(zeros({3}), 0, 0, 4); }};
  infos.push_back(describe("embed_slice", "y[begin + step i] = x[i], else 0",
                           {{2, 3}, {2}, {2, 1}, {2, 0}, {2, 5, 2}, {2, 2}, {2, 7}, {1}, {1, 1}},
                           [](const Variable& x) {
                             Shape shape = x.shape();
                             shape[0] = 6;
                             return square(embed_slice(x, shape, 0, 1, 3));
                           }));
  infos.back().refused = {[zeros] { embed_slice(zeros({3}), {4}, 0, 2); }};
  infos.push_back(describe("contiguous", "y = x", matrices, [](const Variable& x) { return square(contiguous(x)); }));
  infos.push_back(describe("cast", "y = x in another type", matrices,
                           [](const Variable& x) { return square(cast(x, DType::f64)); }));
}

}  // namespace bochner
