// The promises of the ops of autograd/ops/join.h, and samples to check them.
#include "autograd/ops/join.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/ops/join.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_join(OpInfos& infos) {
  const std::vector<Shape> matrices = {{2, 3}, {1, 1}, {5, 7}, {0, 3}, {3, 0}, {4, 2}, {3, 1}, {6, 5}};
  const auto zeros = [](const Shape& shape) { return Variable(Tensor::zeros(shape)); };
  infos.push_back(
      describe_on_layouts(2000, "concat", "y = (x_1, ..., x_n) along an axis", matrices, [](const Variable& x) {
        return square(concat({x, x * 2, slice(x, 1, 0, x.size(1) / 2)}, 1));
      }));
  infos.back().refused = {[zeros] {
                            concat({zeros({2, 3}), zeros({3, 3})}, 1);
                          },
                          [zeros] {
                            concat({zeros({2, 3}), Variable(Tensor::zeros({2, 3}, DType::f64))}, 1);
                          },
                          [] { concat(std::vector<Variable>{}, 0); }};
  infos.push_back(
      describe_on_layouts(2000, "stack", "y = (x_1, ..., x_n) along a new axis", matrices, [](const Variable& x) {
        return square(stack({x, x * 2}, 1)) + square(stack({x * 3, x}, -2));
      }));
  infos.back().refused = {[zeros] { stack({zeros({2, 3}), zeros({2, 4})}); }, [] { stack(std::vector<Variable>{}); }};
  infos.push_back(describe_on_layouts(2000, "unbind", "y_i = x[i]",
                                      {{2, 3}, {2, 1}, {2, 7}, {2, 2, 3}, {2, 0}, {2, 4}, {2, 5, 1}, {1, 1}},
                                      [](const Variable& x) {
                                        const std::vector<Variable> parts = unbind(x, 0);
                                        return square(parts[0]) * 2 + parts.back();
                                      }));
  infos.back().refused = {[zeros] { unbind(zeros({2}), 1); }};
  infos.push_back(
      describe_on_layouts(2000, "pad", "y[b + i] = x[i] within a frame of one value", matrices, [](const Variable& x) {
        return square(pad(x, {1, 0}, {0, 2}, 0.5));
      }));
  infos.back().refused = {[zeros] { pad(zeros({2}), {-1}, {0}); }, [zeros] { pad(zeros({2, 2}), {1}, {1}); }};
}

const bool kJoinDescribed = add_family(describe_join);

}  // namespace bochner
