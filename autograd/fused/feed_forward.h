// The feed-forward block of a Transformer as one op; the equation is in engine/ops/feed_forward.h.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/feed_forward.h"

namespace bochner {

/// PyTorch's layout. The biases may be undefined, and so may gamma and beta together, for a block without norm.
struct FeedForwardVariables {
  Variable w1 = {}, b1 = {};       ///< (hidden, dim), (hidden)
  Variable w2 = {}, b2 = {};       ///< (dim, hidden), (dim)
  Variable gamma = {}, beta = {};  ///< (dim)
};

/// y = x + dropout(dropout(act(LayerNorm(x) W1^T + b1)) W2^T + b2):  x (..., dim) -> (..., dim)
Variable feed_forward(const Variable& x, const FeedForwardVariables& weights, const FeedForwardOptions& options = {});
/// The same in plain ops.
Variable feed_forward_composed(const Variable& x, const FeedForwardVariables& weights,
                               const FeedForwardOptions& options = {});

/// Its second half, from u = LayerNorm(x) W1^T on, as one product of all rows:
///   y = residual + dropout(h W2^T + b2),  h = dropout(act(u + b1)):  u (..., hidden), residual (..., dim) or undefined
/// Only u is kept; backward recomputes h.
Variable feed_forward_from(const Variable& u, const Variable& residual, const FeedForwardVariables& weights,
                           const FeedForwardOptions& options = {});
/// The same in plain ops.
Variable feed_forward_from_composed(const Variable& u, const Variable& residual, const FeedForwardVariables& weights,
                                    const FeedForwardOptions& options = {});

}  // namespace bochner
