#include "autograd/ops/reduce.h"

#include <algorithm>

#include "autograd/op_info.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
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

Variable mean(const Variable& x, const Dims& axes, bool keep) {
  const Variable total = sum(x, axes, keep);
  return total * (static_cast<double>(total.size()) / static_cast<double>(x.size()));
}

// y = max x:  dx = g / n where x = y, n such places
Variable amax(const Variable& x, const Dims& axes, bool keep) {
  const Tensor top = amax(x.value(), axes, true);
  const Tensor y = keep ? top : top.reshape(amax(x.value(), axes, false).shape());
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

Variable log_softmax(const Variable& x, int axis) { return x - logsumexp(x, axis, true); }

namespace {

using Reduce = std::function<Variable(const Variable&, const Dims&, bool)>;
using Along = std::function<Variable(const Variable&, int)>;

OpInfo describe_over_axes(const char* name, const char* equation, const Reduce& f, bool empty_allowed) {
  OpInfo info{name, equation, "", {}, {}};
  uint64_t seed = 500;
  const std::vector<std::pair<Shape, Dims>> cases = {
      {{5}, {0}},       {{1}, {}},           {{3, 4}, {1}},           {{3, 4}, {0}},
      {{2, 3, 5}, {1}}, {{2, 3, 5}, {0, 2}}, {{2, 3, 2, 2}, {-1, 1}}, {{7, 9}, {}},
      {{}, {}},         {{0, 3}, {1}},       {{3, 1, 2}, {1}}};
  for (const auto& [shape, axes] : cases) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      const bool along_first = axes.rank() == 0 || std::find(axes.begin(), axes.end(), 0) != axes.end();
      if (!empty_allowed && along_first && label.ends_with("broadcast")) continue;  // equal maxima are a kink
      const bool keep = seed % 2 == 0;
      info.samples.push_back(
          {fmt::format("{} over {}", label, axes.str()), {x}, [f, over = axes, keep](const std::vector<Variable>& in) {
             return f(in[0], over, keep);
           }});
    }
  }
  info.refused = {[f] { f(Tensor::zeros({2, 3}), {2}, false); }};
  if (!empty_allowed) info.refused.push_back([f] { f(Tensor::zeros({2, 0}), {1}, false); });
  return info;
}

OpInfo describe_along(const char* name, const char* equation, const Along& f) {
  OpInfo info{name, equation, "", {}, {}};
  uint64_t seed = 700;
  const std::vector<std::pair<Shape, int>> cases = {{{5}, 0},    {{1}, 0},       {{3, 4}, 1},
                                                    {{3, 4}, 0}, {{2, 3, 5}, 1}, {{7, 33}, -1},
                                                    {{0, 3}, 1}, {{4, 1}, 1},    {{2, 65}, 1}};
  for (const auto& [shape, axis] : cases) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      info.samples.push_back({fmt::format("{} along {}", label, axis),
                              {x},
                              [f, at = axis](const std::vector<Variable>& in) { return f(in[0], at); }});
    }
  }
  info.refused = {[f] { f(Tensor::zeros({2, 3}), 2); }, [f] { f(Tensor::zeros({2, 3}, DType::i64), 1); }};
  return info;
}

}  // namespace

void describe_reduce(OpInfos& infos) {
  infos.push_back(describe_over_axes(
      "sum", "y = sum_i x_i", [](auto& x, auto& axes, bool keep) { return sum(x, axes, keep); }, true));
  infos.push_back(describe_over_axes(
      "mean", "y = 1/n sum_i x_i", [](auto& x, auto& axes, bool keep) { return mean(x, axes, keep); }, true));
  infos.push_back(describe_over_axes(
      "amax", "y = max_i x_i", [](auto& x, auto& axes, bool keep) { return amax(x, axes, keep); }, false));
  infos.push_back(describe_over_axes(
      "amin", "y = min_i x_i", [](auto& x, auto& axes, bool keep) { return amin(x, axes, keep); }, false));
  infos.push_back(
      describe_along("softmax", "y_i = e^(x_i) / sum_j e^(x_j)", [](auto& x, int axis) { return softmax(x, axis); }));
  infos.push_back(describe_along("log_softmax", "y_i = x_i - ln sum_j e^(x_j)",
                                 [](auto& x, int axis) { return log_softmax(x, axis); }));
  infos.push_back(
      describe_along("logsumexp", "y = ln sum_j e^(x_j)", [](auto& x, int axis) { return logsumexp(x, axis); }));
}

}  // namespace bochner
