// The promises of the ops of autograd/ops/index.h, and samples to check them.
#include "autograd/ops/index.h"

#include "autograd/ops/binary.h"
#include "autograd/tape.h"
#include "engine/ops/index.h"
#include "engine/random.h"
#include "tests/autograd/op_info.h"

namespace bochner {
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

const bool kIndexDescribed = add_family(describe_index);

}  // namespace bochner
