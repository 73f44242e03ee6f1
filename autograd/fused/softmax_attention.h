// Softmax attention that never stores its scores; equations are in engine/ops/attention/softmax_attention.h.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/attention/softmax_attention.h"

namespace bochner {

/// O = softmax(scale Q K^T) V:  Q (B, H, Lq, D), K (B, H, Lk, D), V (B, H, Lk, E) and keys, bool (B, Lk) or undefined,
/// give (B, H, Lq, E). A query that sees no key gets zeros.
Variable softmax_attention(const SoftmaxAttentionOptions& options, const Variable& Q, const Variable& K,
                           const Variable& V, const Tensor& keys);

namespace composed {

/// The same in plain differentiable ops, as the paper writes it: for reading, and for tests of the fused kernel.
Variable softmax_attention(const SoftmaxAttentionOptions& options, const Variable& Q, const Variable& K,
                           const Variable& V, const Tensor& keys);

}  // namespace composed
}  // namespace bochner
