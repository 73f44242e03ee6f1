// Losses that return one number, a mean, with hand-written backwards. Sums have a fixed order and, across rows, double
// precision. f32 and f64. In each backward, g is the gradient of the loss, a tensor with one element.
#pragma once

#include <optional>

#include "engine/tensor.h"

namespace bochner {

struct CrossEntropyOptions {
  double smoothing = 0;                ///< s: the target is (1 - s) onehot + s / classes
  std::optional<int64_t> ignore = {};  ///< rows with this label do not count
};

struct CrossEntropy {
  Tensor loss;  ///< ()
  Tensor rest;  ///< (...), r of each row: all that backward needs besides the inputs
};

/// loss = 1/n sum_i (t_i + r_i - (1 - s) x_(i, label_i) - s / c sum_j x_ij),
/// t_i = max_j x_ij,  r_i = ln sum_j e^(x_ij - t_i),
/// over the n rows that are not ignored; 0 if there are none. x (..., c); labels i64 or i32 (...), in [0, c). Logits
/// are taken as differences from t_i: the loss may be small beside them.
CrossEntropy cross_entropy(const Tensor& x, const Tensor& labels, const CrossEntropyOptions& options = {});
/// dx_ij = g / n (e^(x_ij - t_i - r_i) - (1 - s) [j = label_i] - s / c), 0 in ignored rows.
Tensor cross_entropy_backward(const Tensor& g, const Tensor& x, const Tensor& labels, const Tensor& rest,
                              const CrossEntropyOptions& options = {});

/// loss = 1/n sum_i (max(x_i, 0) - x_i t_i + ln(1 + e^-|x_i|)) over all n elements; x and t have the same shape. It is
/// -1/n sum_i (t ln sigmoid(x) + (1 - t) ln(1 - sigmoid(x))).
Tensor binary_cross_entropy(const Tensor& x, const Tensor& targets);
/// dx_i = g / n (sigmoid(x_i) - t_i)
Tensor binary_cross_entropy_backward(const Tensor& g, const Tensor& x, const Tensor& targets);

/// loss = 1/n sum_i (x_i - t_i)^2 over all n elements; x and t have the same shape.
Tensor mean_squared_error(const Tensor& x, const Tensor& targets);
/// dx_i = 2 g / n (x_i - t_i);  dt = -dx.
Tensor mean_squared_error_backward(const Tensor& g, const Tensor& x, const Tensor& targets);

}  // namespace bochner
