// The promises of the ops of autograd/ops/hadamard.h, and samples to check them.
#include "autograd/ops/hadamard.h"
#include "autograd/ops/unary.h"
#include "engine/ops/hadamard.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_hadamard(OpInfos& infos) {
  OpInfo info{"hadamard", "y_i = sum_j (-1)^popcount(i & j) x_j", "Le, Sarlos & Smola, 2013", {}, {}};
  uint64_t seed = 2500;
  for (const Shape& shape :
       {Shape{8}, Shape{1}, Shape{3, 4}, Shape{2, 3, 2}, Shape{5, 16}, Shape{0, 4}, Shape{7, 1}, Shape{2, 64}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      info.samples.push_back({label, {x}, [](const std::vector<Variable>& in) { return square(hadamard(in[0])); }});
    }
  }
  info.refused = {[] { hadamard(Variable(Tensor::zeros({2, 3}))); }, [] { hadamard(Variable(Tensor::zeros({}))); }};
  infos.push_back(info);
}

const bool kHadamardDescribed = add_family(describe_hadamard);

}  // namespace bochner
