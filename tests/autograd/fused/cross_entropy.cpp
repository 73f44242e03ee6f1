// The promises of the ops of autograd/fused/cross_entropy.h, and samples to check them.
#include "autograd/fused/cross_entropy.h"
#include <algorithm>
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/tape.h"
#include "engine/random.h"

#include "tests/autograd/op_info.h"

namespace bochner {

namespace {

OpInfo cross_entropy_info() {
  OpInfo info{"cross_entropy", "loss = -1/n sum_i ln softmax(x_i)_(label_i)", "", {}, {}};
  static const std::vector<CrossEntropyOptions> kOptions = {{}, {.smoothing = 0.1}, {.smoothing = 0.2, .ignore = 0}};
  uint64_t seed = 1900;
  for (const Shape& shape :
       {Shape{4, 5}, Shape{1, 1}, Shape{7, 3}, Shape{3, 33}, Shape{1, 10}, Shape{0, 4}, Shape{2, 3, 6}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      Generator generator(++seed);
      Shape rows = shape;
      rows.erase(-1);
      const Tensor labels = integers(rows, 0, shape[-1], generator);
      const CrossEntropyOptions options = kOptions[seed % kOptions.size()];
      info.samples.push_back(
          {label,
           {x},
           [=](const std::vector<Variable>& in) { return cross_entropy(in[0], beside(in[0], labels), options); },
           [=](const std::vector<Variable>& in) {
             return cross_entropy_composed(in[0], beside(in[0], labels), options);
           }});
    }
  }
  info.composition = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  info.refused = {[] {
                    cross_entropy(Variable(Tensor::zeros({2, 3})), Tensor::from<int64_t>({0, 3}, {2}));
                  },
                  [] {
                    cross_entropy(Variable(Tensor::zeros({2, 3})), Tensor::from<int64_t>({0}, {1}));
                  }};
  return info;
}

}  // namespace

void describe_cross_entropy(OpInfos& infos) {
  infos.push_back(cross_entropy_info());
  OpInfo binary{"binary_cross_entropy", "loss = 1/n sum_i softplus(x_i) - x_i t_i", "", {}, {}};
  OpInfo squared{"mean_squared_error", "loss = 1/n sum_i (x_i - t_i)^2", "", {}, {}};
  uint64_t seed = 2000;
  for (const Shape& shape : {Shape{4, 5}, Shape{1}, Shape{7, 3}, Shape{2, 3, 4}, Shape{0, 4}, Shape{33}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      const Tensor targets = sample_values(shape, ++seed, 0.1, 0.9);
      binary.samples.push_back(
          {label,
           {x},
           [=](const std::vector<Variable>& in) { return binary_cross_entropy(in[0], beside(in[0], targets)); },
           [=](const std::vector<Variable>& in) {
             return binary_cross_entropy_composed(in[0], beside(in[0], targets));
           }});
      squared.samples.push_back(
          {label, {x, targets}, [](const std::vector<Variable>& in) { return mean_squared_error(in[0], in[1]); }});
    }
  }
  squared.composition = [](const Sample&, const std::vector<Variable>& in) {
    return mean_squared_error_composed(in[0], in[1]);
  };
  binary.composition = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  binary.refused = {[] { binary_cross_entropy(Variable(Tensor::zeros({2})), Tensor::zeros({3})); }};
  squared.refused = {[] { mean_squared_error(Variable(Tensor::zeros({2})), Variable(Tensor::zeros({3}))); }};
  infos.push_back(binary);
  infos.push_back(squared);
}

const bool kCrossEntropyDescribed = add_family(describe_cross_entropy);

}  // namespace bochner
