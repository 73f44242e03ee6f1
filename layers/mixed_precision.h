// The policy of mixed precision. With Precision::bf16 (engine/precision.h) a model stores in bf16 what grows with the
// number of tokens or rows: activations and their gradients, from the output of the embedding to the pooling of tokens,
// or in a plain network from its input to its output layer. Parameters, their gradients, the optimizer's state,
// statistics (means and deviations of LayerNorm, log-sum-exp, the sums and maxima of kernel attention), the head and
// the loss are f32, and so are all sums within an op.
//
// An op returns the type that it is given (engine/bf16.h), so a model names only the places where the type changes:
//
//   Variable x = as_stored(dropout(patches + positions));  // f32 -> bf16
//   for (const TransformerBlock& block : blocks) x = block.forward(x);
//   return head(as_computed(sum(x)));                      // bf16 -> f32
//
// A mechanism whose ops need f32 says so (Mechanism::reads_bf16) and is given f32; the features of SNNK are computed in
// f32. In f32 and f64 nothing changes. Second derivatives need f32 or f64: the compositions that compute them take only
// one type.
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// The type in which activations that are computed from x are stored: bf16 for f32 under Precision::bf16, if the device
/// supports it; otherwise x's own. For ops that can round what they write.
DType stored_type(const Variable& x);
/// x in that type.
Variable as_stored(const Variable& x);
/// x in the type for computing: bf16 becomes f32; otherwise x itself.
Variable as_computed(const Variable& x);
/// x in the type of `model`: f32 that was computed from a bf16 `model` becomes bf16 again; otherwise x itself.
Variable as_type_of(const Variable& model, const Variable& x);

}  // namespace bochner
