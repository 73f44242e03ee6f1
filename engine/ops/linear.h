// A linear layer fused with its neighbours in a Transformer block (Vaswani et al., 2017; pre-norm: Xiong et al., 2020),
// computed tile by tile of rows:
//
//   n = LayerNorm(x) or x,   y = residual + dropout(n W^T + b)   or   y = dropout(relu(n W^T + b))
//
// Neither n nor n W^T is kept or written: backward recomputes n from x and two numbers per row. Besides inputs and
// outputs, memory is needed for a packed copy of the weights (packed_weights.h) and, in backward, for one copy of their
// gradients for each of a few fixed pieces of rows (at most 64 MB in all).
#pragma once

#include "engine/ops/dropout.h"
#include "engine/tensor.h"

namespace bochner {

/// PyTorch's layout. b may be undefined, and so may gamma and beta together, for a layer without norm.
struct LinearWeights {
  Tensor w = {}, b = {};         ///< (outputs, inputs), (outputs)
  Tensor gamma = {}, beta = {};  ///< (inputs)
};

struct LinearSpec {
  double eps = 1e-5;         ///< of the norm
  bool relu = false;         ///< not together with a residual: y shows where relu' is 1
  Dropout drop = Dropout();  ///< element (row, j) is number row * outputs + j
};

struct LinearResult {
  Tensor y;           ///< (..., outputs)
  Tensor mean, rstd;  ///< (...) of x, undefined without norm
};

/// x (..., inputs), f32, f64, or bf16 with weights and statistics in f32; residual (..., outputs) or undefined.
LinearResult linear(const Tensor& x, const LinearWeights& weights, const Tensor& residual = {},
                    const LinearSpec& spec = {});

/// Which gradients backward computes, as those of frozen weights and of inputs that need no gradient take time.
struct LinearNeeds {
  bool x = true;  ///< always computed if there is a norm
  bool w = true;
  bool b = true;
};

struct LinearGradients {
  Tensor dx;              ///< (..., inputs); undefined if it is not needed
  LinearWeights weights;  ///< undefined if the weight is, or if its gradient is not needed
};

/// With the dropout mask m:  e = g m,  or g step(y) scale after relu, where y > 0 also shows what was kept;
/// dW = e^T n,  db = sum e,  dn = e W,  dx = LayerNorm'(dn) or dn.  `made` is from linear(); its y is needed for relu.
/// The gradient of the residual is g. Rows are summed within fixed pieces, and these sums are added in order.
LinearGradients linear_backward(const Tensor& g, const Tensor& x, const LinearResult& made,
                                const LinearWeights& weights, const LinearSpec& spec = {},
                                const LinearNeeds& needs = {});

/// For the kernels of both backends: x as (rows, inputs).
struct LinearSizes {
  int64_t rows, inputs, outputs;
};

}  // namespace bochner
