#pragma once

#include "engine/ops/bias_activation.h"
#include "engine/tensor.h"

namespace bochner::cuda {

// All contiguous, of one floating type. x, y, g, dx (rows, columns); bias, dbias (columns). columns > 0.

/// `bias` may be undefined.
void bias_activation(int64_t rows, int64_t columns, const Tensor& x, const Tensor& bias, Activation activation,
                     const Tensor& y);
/// `bias` and `dbias` may be undefined, independently.
void bias_activation_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& x, const Tensor& bias,
                              Activation activation, const Tensor& dx, const Tensor& dbias);
void column_sum(int64_t rows, int64_t columns, const Tensor& x, const Tensor& sum);

}  // namespace bochner::cuda
