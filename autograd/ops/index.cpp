#include "autograd/ops/index.h"

#include "autograd/op_info.h"
#include "autograd/ops/binary.h"
#include "autograd/tape.h"
#include "engine/ops/index.h"
#include "engine/random.h"

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
    Shape wide = g.shape();  // that of x, where x was broadcast
    wide[axis] = from[axis];
    return Gradients{sum_to(scatter_add(wide, axis, index, g), from)};
  });
}

Variable scatter_add(const Shape& shape, int axis, const Tensor& index, const Variable& x) {
  return record(
      "scatter_add", scatter_add(shape, axis, index, x.value()), {&x},
      [index, axis, from = x.shape()](const Variable& g) { return Gradients{expand(gather(g, axis, index), from)}; });
}

namespace {

/// Indices of a shape, all below `bound`, some of them equal.
Tensor places(const Shape& shape, int64_t bound, uint64_t seed) {
  Generator generator(seed);
  return shape.size() == 0 ? Tensor::empty(shape, DType::i64) : integers(shape, 0, bound, generator);
}

Shape with(Shape shape, int axis, int64_t size) {
  shape[axis] = size;
  return shape;
}

struct Case {
  Shape x;
  int axis;
  Shape index;
};

void describe_slices(OpInfos& infos) {
  OpInfo chosen{"take", "y[p.., i.., q..] = x[p.., index[i..], q..]", "", {}, {}};
  OpInfo added{"take_add", "y[p.., index[i..], q..] = sum of x[p.., i.., q..]", "", {}, {}};
  uint64_t seed = 2100;
  for (const Case& c : {Case{{5, 3}, 0, {4}},
                        {{5, 3}, 1, {7}},
                        {{1}, 0, {3}},
                        {{4, 3, 2}, 1, {2, 3}},
                        {{3, 5}, -1, {}},
                        {{4, 0}, 0, {3}},
                        {{3, 2}, 0, {0}},
                        {{7}, 0, {1, 1}}}) {
    const Tensor index = places(c.index, c.x[c.axis], ++seed);
    for (const auto& [label, x] : sample_layouts(c.x, ++seed)) {
      chosen.samples.push_back({fmt::format("{} at {} along {}", label, c.index.str(), c.axis),
                                {x},
                                [index, axis = c.axis](const std::vector<Variable>& in) {
                                  return square(take(in[0], beside(in[0], index), axis));
                                }});
    }
    const Shape terms = take(Tensor::zeros(c.x), index, c.axis).shape();
    for (const auto& [label, x] : sample_layouts(terms, ++seed)) {
      added.samples.push_back({fmt::format("{} into {} along {}", label, c.x.str(), c.axis),
                               {x},
                               [index, axis = c.axis, shape = c.x](const std::vector<Variable>& in) {
                                 return square(take_add(shape, beside(in[0], index), in[0], axis));
                               }});
    }
  }
  const auto far = [] { return Tensor::from<int64_t>({0, 3}, {2}); };
  chosen.refused = {[far] {
                      take(Variable(Tensor::zeros({3, 2})), far());
                    },
                    [] {
                      take(Variable(Tensor::zeros({3, 2})), Tensor::zeros({1}, DType::i32));
                    }};
  added.refused = {[far] {
                     take_add({3, 2}, far(), Variable(Tensor::zeros({2, 2})));
                   },
                   [] {
                     take_add({3, 2}, Tensor::zeros({2}, DType::i64), Variable(Tensor::zeros({3, 2})));
                   }};
  infos.push_back(chosen);
  infos.push_back(added);
}

void describe_places(OpInfos& infos) {
  OpInfo chosen{"gather", "y[p.., i, q..] = x[p.., index[p.., i, q..], q..]", "", {}, {}};
  OpInfo added{"scatter_add", "y[p.., index[p.., i, q..], q..] = sum of x[p.., i, q..]", "", {}, {}};
  uint64_t seed = 2200;
  for (const Case& c : {Case{{5, 3}, 0, {4, 3}},
                        {{5, 3}, -1, {5, 7}},
                        {{1}, 0, {3}},
                        {{4, 3, 2}, 1, {4, 5, 1}},
                        {{1, 3, 2}, 1, {4, 2, 2}},
                        {{4, 0}, 0, {3, 0}},
                        {{3, 2}, 0, {0, 2}},
                        {{7}, 0, {1}}}) {
    const Tensor index = places(c.index, c.x[c.axis], ++seed);
    for (const auto& [label, x] : sample_layouts(c.x, ++seed)) {
      chosen.samples.push_back({fmt::format("{} at {} along {}", label, c.index.str(), c.axis),
                                {x},
                                [index, axis = c.axis](const std::vector<Variable>& in) {
                                  return square(gather(in[0], axis, beside(in[0], index)));
                                }});
    }
    const Shape terms = gather(Tensor::zeros(c.x), c.axis, index).shape();
    const Shape into = with(terms, c.axis, c.x[c.axis]);
    for (const auto& [label, x] : sample_layouts(terms, ++seed)) {
      added.samples.push_back({fmt::format("{} into {} along {}", label, into.str(), c.axis),
                               {x},
                               [index, axis = c.axis, into](const std::vector<Variable>& in) {
                                 return square(scatter_add(into, axis, beside(in[0], index), in[0]));
                               }});
    }
  }
  // One index for all terms of a row.
  const Tensor same = places({3, 1}, 4, ++seed);
  for (const auto& [label, x] : sample_layouts({3, 5}, ++seed)) {
    added.samples.push_back({label + ", one place for each row", {x}, [same](const std::vector<Variable>& in) {
                               return square(scatter_add({3, 4}, 1, beside(in[0], same), in[0]));
                             }});
  }
  const auto far = [] { return Tensor::from<int64_t>({0, 3}, {2, 1}); };
  chosen.refused = {[far] {
                      gather(Variable(Tensor::zeros({3, 2})), 0, far());
                    },
                    [] {
                      gather(Variable(Tensor::zeros({3, 2})), 0, Tensor::zeros({2}, DType::i64));
                    }};
  added.refused = {[far] {
                     scatter_add({3, 2}, 0, far(), Variable(Tensor::zeros({2, 2})));
                   },
                   [] {
                     scatter_add({3, 2}, 0, Tensor::zeros({2}, DType::i64), Variable(Tensor::zeros({2, 2})));
                   }};
  infos.push_back(chosen);
  infos.push_back(added);
}

}  // namespace

void describe_index(OpInfos& infos) {
  describe_slices(infos);
  describe_places(infos);
}

}  // namespace bochner
