// The promises of the ops of autograd/fused/dropout.h, and samples to check them.
#include "autograd/fused/dropout.h"
#include "autograd/ops/binary.h"
#include "engine/ops/dropout.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_dropout(OpInfos& infos) {
  static const Dropout kDrop = Dropout::at(0.3, Generator(5, 12));
  OpInfo info{"dropout", "y_i = x_i / (1 - p) with probability 1 - p, else 0", "Srivastava et al., 2014", {}, {}};
  uint64_t seed = 1500;
  for (const Shape& shape : {Shape{7}, Shape{1}, Shape{0}, Shape{3, 5}, Shape{2, 3, 5}, Shape{33, 3}, Shape{4, 0}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      info.samples.push_back({label, {x}, [](const std::vector<Variable>& in) { return dropout_at(in[0], kDrop); }});
    }
  }
  info.composition = [](const Sample&, const std::vector<Variable>& in) {
    return in[0] * Variable(dropout_mask(in[0].shape(), kDrop, DType::f64));
  };
  info.refused = {[] { Dropout::at(1.1, Generator(0)); }, [] { Dropout::at(-0.1, Generator(0)); }};
  infos.push_back(info);
}

const bool kDropoutDescribed = add_family(describe_dropout);

}  // namespace bochner
