// A linear layer and its neighbours in a Transformer block as one op; the equation is in engine/ops/linear.h.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/linear.h"

namespace bochner {

/// PyTorch's layout. b may be undefined, and so may gamma and beta together, for a layer without norm.
struct LinearVariables {
  Variable w = {}, b = {};         ///< (outputs, inputs), (outputs)
  Variable gamma = {}, beta = {};  ///< (inputs)
};

/// y = residual + dropout(LayerNorm(x) W^T + b):  x (..., inputs), residual (..., outputs) or undefined; with spec.relu
/// y = dropout(relu(LayerNorm(x) W^T + b))
Variable linear(const Variable& x, const LinearVariables& weights, const Variable& residual = {},
                const LinearSpec& spec = {});
/// The same in plain ops.
Variable linear_composed(const Variable& x, const LinearVariables& weights, const Variable& residual = {},
                         const LinearSpec& spec = {});

}  // namespace bochner
