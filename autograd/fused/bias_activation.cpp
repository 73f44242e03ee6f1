#include "autograd/fused/bias_activation.h"

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
  return record_fused(
      "bias_activation", bias_activation(x.value(), bias.value(), activation), {x, bias},
      [activation](const auto& in) { return bias_activation_composed(in[0], in[1], activation); },
      [activation](const Tensor& g, const auto& in) -> Gradients {
        const BiasActivationGradients grads = bias_activation_backward(g, in[0].value(), in[1].value(), activation);
        return {grads.dx, grads.dbias};
      });
}

}  // namespace bochner
