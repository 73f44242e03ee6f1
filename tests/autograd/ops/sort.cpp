// The promises of the ops of autograd/ops/sort.h, and samples to check them.
#include "autograd/ops/sort.h"
#include "autograd/ops/index.h"
#include "autograd/ops/unary.h"
#include "engine/ops/sort.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_sort(OpInfos& infos) {
  OpInfo sorted{"sort", "y = x in ascending order", "", {}, {}};
  OpInfo top{"topk", "y = the k largest elements of x, largest first", "", {}, {}};
  const std::vector<std::pair<Shape, int>> cases = {{{5}, 0},       {{1}, 0},    {{3, 4}, 1}, {{3, 4}, 0},  {{1, 7}, 1},
                                                    {{2, 3, 5}, 1}, {{0, 3}, 1}, {{3, 0}, 1}, {{7, 33}, -1}};
  uint64_t seed = 2400;
  for (const auto& [shape, axis] : cases) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      if (label.ends_with("broadcast") && axis == 0) continue;  // equal elements are a kink
      const bool descending = seed % 2 == 0;
      sorted.samples.push_back(
          {fmt::format("{} along {}", label, axis), {x}, [descending, at = axis](const std::vector<Variable>& in) {
             return square(sort(in[0], at, descending).values);
           }});
      const int64_t k = (shape[axis] + 1) / 2;
      top.samples.push_back(
          {fmt::format("{} of {} along {}", k, label, axis), {x}, [k, at = axis](const std::vector<Variable>& in) {
             return square(topk(in[0], k, at).values);
           }});
    }
  }
  sorted.refused = {[] { sort(Variable(Tensor::zeros({2, 3})), 2); }};
  top.refused = {[] { topk(Variable(Tensor::zeros({2, 3})), 4); }, [] { topk(Variable(Tensor::zeros({2, 3})), -1); }};
  infos.push_back(sorted);
  infos.push_back(top);
}

const bool kSortDescribed = add_family(describe_sort);

}  // namespace bochner
