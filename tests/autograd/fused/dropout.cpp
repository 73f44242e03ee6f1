// The promises of the ops of autograd/fused/dropout.h, and samples to check them.
#include "autograd/fused/dropout.h"
#include "autograd/ops/binary.h"
#include "engine/ops/dropout.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_dropout(OpInfos& infos) {
  static const Dropout kDrop = Dropout::at(0.3, Generator(5, 12));
  OpInfo info{"dropout", "y_i = x_i / (1 - p) with probability 1 - p, else 0", "Srivastava et al., 2014", {}, {}};
  OpInfo sum{"add_dropout", "y = residual + dropout(x)", "Srivastava et al., 2014", {}, {}};
  uint64_t seed = 1500;
  for (const Shape& shape : {Shape{7}, Shape{1}, Shape{0}, Shape{3, 5}, Shape{2, 3, 5}, Shape{33, 3}, Shape{4, 0}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      info.samples.push_back({label, {x}, [](const std::vector<Variable>& in) { return dropout_at(in[0], kDrop); }});
      sum.samples.push_back({label, {x, sample_values(shape, ++seed)}, [](const std::vector<Variable>& in) {
                               return add_dropout_at(in[0], in[1], kDrop);
                             }});
    }
  }
  info.composition = [](const Sample&, const std::vector<Variable>& in) {
    return in[0] * Variable(dropout_mask(in[0].shape(), kDrop, DType::f64));
  };
  sum.composition = [](const Sample&, const std::vector<Variable>& in) {
    return in[0] * Variable(dropout_mask(in[0].shape(), kDrop, DType::f64)) + in[1];
  };
  info.refused = {[] { Dropout::at(1.1, Generator(0)); }, [] { Dropout::at(-0.1, Generator(0)); }};
  sum.refused = {[] { add_dropout_at(Variable(Tensor::zeros({2})), Variable(Tensor::zeros({3})), kDrop); }};
  infos.push_back(info);
  infos.push_back(sum);
}

const bool kDropoutDescribed = add_family(describe_dropout);

}  // namespace bochner
