// The feed-forward half of a Transformer block (Vaswani et al., 2017) in pre-norm form (Xiong et al., 2020), computed
// tile by tile of rows:
//
//   n = LayerNorm(x),   h = dropout(act(n W1^T + b1)),   y = x + dropout(h W2^T + b2)
//
// The (rows x hidden) activations are never written to memory: those of one tile stay in the cache, and backward
// recomputes them, unless n W1^T is kept, which saves backward one of five products. Backward needs x and two numbers
// per row. Besides inputs and outputs, memory is needed for a packed copy of the weights and, in backward, for one copy
// of their gradients for each of a few fixed pieces of rows (at most 64 MB in all).
//
// It is designed for many more rows than `hidden` and for weights that stay in the caches, up to 256 wide. With few
// rows or large weights, separate products are faster.
#pragma once

#include "engine/ops/bias_activation.h"
#include "engine/ops/dropout.h"
#include "engine/tensor.h"

namespace bochner {

/// PyTorch's layout. The biases may be undefined, and so may gamma and beta together, for a block without norm: n = x.
struct FeedForwardWeights {
  Tensor w1 = {}, b1 = {};       ///< (hidden, dim), (hidden)
  Tensor w2 = {}, b2 = {};       ///< (dim, hidden), (dim)
  Tensor gamma = {}, beta = {};  ///< (dim)
};

struct FeedForwardOptions {
  Activation activation = Activation::gelu;
  double eps = 1e-5;
  bool residual = true;       ///< add x
  Dropout inner = Dropout();  ///< after the activation: element (row, j) is number row * hidden + j
  Dropout outer = Dropout();  ///< after the second product: element (row, j) is number row * dim + j
  bool keep_hidden = false;   ///< keep n W1^T for backward; the results are the same, but for rounding to bf16
};

struct FeedForwardResult {
  Tensor y;           ///< (..., dim)
  Tensor mean, rstd;  ///< (...) of x, undefined without norm
  Tensor hidden;      ///< (..., hidden) n W1^T, undefined unless it is kept
};

/// x (..., dim), f32, f64, or bf16 with weights and statistics in f32.
FeedForwardResult feed_forward(const Tensor& x, const FeedForwardWeights& weights,
                               const FeedForwardOptions& options = {});

struct FeedForwardGradients {
  Tensor dx;                   ///< (..., dim)
  FeedForwardWeights weights;  ///< undefined if the weight is; W1 and W2 also if their gradients are not needed
};

/// With u = n W1^T + b1, m1 and m2 the dropout masks:
///   e = g m2,  db2 = sum e,  dW2 = e^T h,  du = (e W2) m1 act'(u),  db1 = sum du,  dW1 = du^T n,
///   dn = du W1,  dx = LayerNorm'(dn) + g
/// `made` is the result of feed_forward(), whose y is not read. Rows are summed within fixed pieces, and these sums are
/// added in order. Without `need_w`, for frozen weights, dW1 and dW2 are not computed.
FeedForwardGradients feed_forward_backward(const Tensor& g, const Tensor& x, const FeedForwardResult& made,
                                           const FeedForwardWeights& weights, const FeedForwardOptions& options = {},
                                           bool need_w = true);

/// For the kernels of both backends: x as (rows, dim).
struct FeedForwardSizes {
  int64_t rows, dim, hidden;
};

}  // namespace bochner
