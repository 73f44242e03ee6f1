// A linear layer with what stands around it in a Transformer block as one op; equation in engine/ops/linear.h.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/linear.h"

namespace bochner {

/// PyTorch's layout; gamma and beta are both undefined for a layer without norm, b may be undefined.
struct LinearVariables {
  Variable gamma, beta;  ///< (inputs)
  Variable w, b;         ///< (outputs, inputs), (outputs)
};

/// y = residual + dropout(LayerNorm(x) W^T + b):  x (..., inputs), residual (..., outputs) or undefined; with spec.relu
/// y = dropout(relu(LayerNorm(x) W^T + b))
Variable linear(const Variable& x, const LinearVariables& weights, const Variable& residual = {},
                const LinearSpec& spec = {});
/// What it equals, in plain ops.
Variable linear_composed(const Variable& x, const LinearVariables& weights, const Variable& residual = {},
                         const LinearSpec& spec = {});

}  // namespace bochner
