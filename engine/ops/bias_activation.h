// y = act(x + b) in one pass over memory. Backward computes x + b again, so only the input of this op is kept.
#pragma once

#include <string_view>

#include "engine/tensor.h"

namespace bochner {

/// The functions that fused kernels can apply; equations are in engine/ops/unary.h.
enum class Activation : uint8_t { identity, relu, gelu, gelu_tanh };

std::string_view name_of(Activation activation);
/// The activation with that name, or an Error that lists them.
Activation activation_named(std::string_view name);

/// y_ij = act(x_ij + b_j); x (..., n), b (n) or undefined. f32, f64; bf16 with b in f32.
Tensor bias_activation(const Tensor& x, const Tensor& bias, Activation activation);

struct BiasActivationGradients {
  Tensor dx;     ///< (..., n)
  Tensor dbias;  ///< (n); undefined if the bias is
};

/// dx_ij = g_ij act'(x_ij + b_j),  db_j = sum_i dx_ij in fixed order.
BiasActivationGradients bias_activation_backward(const Tensor& g, const Tensor& x, const Tensor& bias,
                                                 Activation activation);

/// The sum over all axes but the last: (..., n) -> (n), in an order that depends only on the shape, and on the CPU only
/// on the number of rows. f32, f64; bf16 gives f32.
Tensor column_sum(const Tensor& x);

}  // namespace bochner
