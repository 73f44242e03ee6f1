#include "engine/ops/bias_activation.h"

#include <array>

#include "engine/bf16.h"
#include "engine/kernel.h"

namespace bochner {

// All contiguous, of one floating type. x, y, g, dx (rows, columns); bias, dbias (columns). columns > 0.

// `bias` may be undefined.
BOCHNER_KERNEL(kBiasActivation, "bias_activation", bias_activation, int64_t rows, int64_t columns, const Tensor& x,
               const Tensor& bias, Activation activation, const Tensor& y);
// `bias` and `dbias` may be undefined, independently.
BOCHNER_KERNEL(kBiasActivationBackward, "bias_activation_backward", bias_activation_backward, int64_t rows,
               int64_t columns, const Tensor& g, const Tensor& x, const Tensor& bias, Activation activation,
               const Tensor& dx, const Tensor& dbias);
BOCHNER_KERNEL(kColumnSum, "column_sum", column_sum, int64_t rows, int64_t columns, const Tensor& x, const Tensor& sum);

namespace {

constexpr std::array<std::pair<Activation, std::string_view>, 4> kNames{{{Activation::identity, "identity"},
                                                                         {Activation::relu, "relu"},
                                                                         {Activation::gelu, "gelu"},
                                                                         {Activation::gelu_tanh, "gelu_tanh"}}};

int64_t columns_of(const char* op, const Tensor& x) {
  if (x.rank() == 0) fail("{}: needs at least one axis, got {}", op, x.str());
  require_stored(x.dtype(), op);
  return x.size(-1);
}

void check_bias(const Tensor& bias, const Tensor& x) {
  if (!bias.defined()) return;
  if (!(bias.shape() == Shape{x.size(-1)}) || bias.dtype() != compute_dtype(x.dtype()))
    fail("bias_activation: bias {} does not fit {}; it must be {} ({})", bias.str(), x.str(),
         name_of(compute_dtype(x.dtype())), x.size(-1));
}

}  // namespace

std::string_view name_of(Activation activation) { return kNames[static_cast<size_t>(activation)].second; }

Activation activation_named(std::string_view name) {
  for (const auto& [activation, known] : kNames) {
    if (known == name) return activation;
  }
  fail("activation: there is no '{}'; there are identity, relu, gelu, gelu_tanh", name);
}

Tensor bias_activation(const Tensor& x, const Tensor& bias, Activation activation) {
  const int64_t columns = columns_of("bias_activation", x);
  check_bias(bias, x);
  if (must_convert(x)) return to_bf16(bias_activation(to_f32(x), bias, activation));
  const Tensor y = Tensor::empty_like(x);
  if (x.size() > 0) {
    kBiasActivation(x.device(), x.size() / columns, columns, x.contiguous(), bias.contiguous(), activation, y);
  }
  return y;
}

BiasActivationGradients bias_activation_backward(const Tensor& g, const Tensor& x, const Tensor& bias,
                                                 Activation activation) {
  const int64_t columns = columns_of("bias_activation", x);
  check_bias(bias, x);
  if (!(g.shape() == x.shape()) || g.dtype() != x.dtype())
    fail("bias_activation: gradient {} does not fit {}", g.str(), x.str());
  if (must_convert(x)) {
    const BiasActivationGradients found = bias_activation_backward(to_f32(g), to_f32(x), bias, activation);
    return {to_bf16(found.dx), found.dbias};
  }
  const BiasActivationGradients result{
      Tensor::empty_like(x),
      bias.defined() ? Tensor::zeros({columns}, compute_dtype(x.dtype()), x.device()) : Tensor()};
  if (x.size() > 0) {
    kBiasActivationBackward(x.device(), x.size() / columns, columns, g.contiguous(), x.contiguous(), bias.contiguous(),
                            activation, result.dx, result.dbias);
  }
  return result;
}

Tensor column_sum(const Tensor& x) {
  const int64_t columns = columns_of("column_sum", x);
  const Tensor sum = Tensor::zeros({columns}, compute_dtype(x.dtype()), x.device());
  if (x.size() > 0) kColumnSum(x.device(), x.size() / columns, columns, x.contiguous(), sum);
  return sum;
}

}  // namespace bochner
