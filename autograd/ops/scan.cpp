#include "autograd/ops/scan.h"

#include "autograd/op_info.h"
#include "autograd/ops/unary.h"

namespace bochner {

// y_i = sum_(j <= i) x_j:  dx_j = sum_(i >= j) g_i, the same scan from the other end
Variable cumsum(const Variable& x, int axis, ScanOptions options) {
  ScanOptions back = options;
  back.reverse = !options.reverse;
  return record("cumsum", cumsum(x.value(), axis, options), {&x},
                [axis, back](const Variable& g) { return Gradients{cumsum(g, axis, back)}; });
}

void describe_scan(OpInfos& infos) {
  OpInfo info{"cumsum", "y_i = sum over j <= i of x_j", "", {}, {}};
  const std::vector<std::pair<Shape, int>> cases = {{{5}, 0},       {{1}, 0},    {{3, 4}, 1}, {{3, 4}, 0},
                                                    {{2, 3, 5}, 1}, {{0, 3}, 1}, {{3, 0}, 1}, {{7, 33}, -1}};
  uint64_t seed = 2300;
  for (const auto& [shape, axis] : cases) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      const ScanOptions options{seed % 2 == 1, seed % 3 == 1};
      info.samples.push_back(
          {fmt::format("{} along {}", label, axis), {x}, [options, at = axis](const std::vector<Variable>& in) {
             return square(cumsum(in[0], at, options));
           }});
    }
  }
  info.refused = {[] { cumsum(Variable(Tensor::zeros({2, 3})), 2); }};
  infos.push_back(info);
}

}  // namespace bochner
