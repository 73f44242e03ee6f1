// The promises of the ops of autograd/fused/bias_activation.h, and samples to check them.
#include "autograd/fused/bias_activation.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/unary.h"
#include "autograd/tape.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_bias_activation(OpInfos& infos) {
  OpInfo info{"bias_activation", "y = act(x + b), act one of identity, relu, gelu, gelu_tanh", "", {}, {}};
  uint64_t seed = 2100;
  for (const Activation activation :
       {Activation::identity, Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    for (const Shape& shape : {Shape{4, 5}, Shape{1, 1}, Shape{3, 33}, Shape{0, 4}, Shape{2, 3, 6}}) {
      for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
        const Tensor bias = sample_values({shape[-1]}, ++seed, -0.02, 0.02, 0);  // smaller than x's margin at 0
        info.samples.push_back(
            {label + " " + std::string(name_of(activation)),
             {x, bias},
             [=](const std::vector<Variable>& in) { return bias_activation(in[0], in[1], activation); },
             [=](const std::vector<Variable>& in) { return bias_activation_composed(in[0], in[1], activation); }});
      }
    }
  }
  info.composition = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  info.refused = {[] {
    bias_activation(Variable(Tensor::zeros({2, 3})), Variable(Tensor::zeros({2})), Activation::relu);
  }};
  infos.push_back(info);
}

const bool kBiasActivationDescribed = add_family(describe_bias_activation);

}  // namespace bochner
