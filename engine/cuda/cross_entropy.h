#pragma once

#include "engine/ops/cross_entropy.h"
#include "engine/tensor.h"

namespace bochner::cuda {

// All contiguous. x, dx (rows, classes); labels i64, logsumexp (rows); loss and g have one element.

void cross_entropy(int64_t rows, int64_t classes, const Tensor& x, const Tensor& labels,
                   const CrossEntropyOptions& options, const Tensor& loss, const Tensor& logsumexp);
void cross_entropy_backward(int64_t rows, int64_t classes, const Tensor& g, const Tensor& x, const Tensor& labels,
                            const Tensor& logsumexp, const CrossEntropyOptions& options, const Tensor& dx);
void binary_cross_entropy(const Tensor& x, const Tensor& targets, const Tensor& loss);
void binary_cross_entropy_backward(const Tensor& g, const Tensor& x, const Tensor& targets, const Tensor& dx);
void mean_squared_error(const Tensor& x, const Tensor& targets, const Tensor& loss);
void mean_squared_error_backward(const Tensor& g, const Tensor& x, const Tensor& targets, const Tensor& dx);

}  // namespace bochner::cuda
