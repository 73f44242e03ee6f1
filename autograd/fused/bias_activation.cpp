#include "autograd/fused/bias_activation.h"

#include "autograd/op_info.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/unary.h"
#include "autograd/tape.h"

namespace bochner {

Variable activate(const Variable& x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::identity:
      break;
  }
  return x;
}

Variable bias_activation_composed(const Variable& x, const Variable& bias, Activation activation) {
  return activate(bias.defined() ? x + bias : x, activation);
}

// y = act(x + b):  dx = g act'(x + b),  db = sum of dx over rows
Variable bias_activation(const Variable& x, const Variable& bias, Activation activation) {
  return record("bias_activation", bias_activation(x.value(), bias.value(), activation), {&x, &bias},
                [x, bias, activation](const Variable& g) -> Gradients {
                  if (Tape* tape = Tape::current()) {
                    return tape->pull_back(
                        [activation](const auto& in) { return bias_activation_composed(in[0], in[1], activation); },
                        {x, bias}, g);
                  }
                  const BiasActivationGradients grads =
                      bias_activation_backward(g.value(), x.value(), bias.value(), activation);
                  return {grads.dx, grads.dbias};
                });
}

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

}  // namespace bochner
