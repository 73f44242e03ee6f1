// The promises of the ops of autograd/ops/scan.h, and samples to check them.
#include "autograd/ops/scan.h"
#include "autograd/ops/unary.h"

#include "tests/autograd/op_info.h"

namespace bochner {

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

const bool kScanDescribed = add_family(describe_scan);

}  // namespace bochner
