// Softmax and log-sum-exp along one axis, shifted by the maximum so that nothing overflows.
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// y_i = e^(x_i - m) / sum_j e^(x_j - m),  m = max x. A row of -inf gives zeros.
Tensor softmax(const Tensor& x, int axis = -1);
/// dx = y * (g - sum(g y))
Tensor softmax_backward(const Tensor& g, const Tensor& y, int axis = -1);
/// y = m + ln sum_j e^(x_j - m); the axis is removed, or stays with size 1 (keep). An empty axis gives -inf.
Tensor logsumexp(const Tensor& x, int axis = -1, bool keep = false);

}  // namespace bochner
