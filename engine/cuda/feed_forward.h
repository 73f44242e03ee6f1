#pragma once

#include "engine/ops/feed_forward.h"

namespace bochner::cuda {

// All contiguous, of one floating type, and positive sizes. Biases are defined; mean, rstd (rows), gamma and beta are
// undefined together for a block without norm.

void feed_forward(const FeedForwardSizes& sizes, const Tensor& x, const FeedForwardWeights& weights,
                  const FeedForwardOptions& options, const FeedForwardResult& result);
/// Fills `result`, whose gamma and beta are undefined where those of `weights` are.
void feed_forward_backward(const FeedForwardSizes& sizes, const Tensor& g, const Tensor& x, const Tensor& mean,
                           const Tensor& rstd, const FeedForwardWeights& weights, const FeedForwardOptions& options,
                           const FeedForwardGradients& result);

}  // namespace bochner::cuda
