// Attention in plain differentiable ops, as the papers write it: the teaching text, and the oracle of the streaming
// kernels. Memory grows with length x length (softmax) or length x features (kernels).
#pragma once

#include "autograd/variable.h"
#include "layers/mask.h"

namespace bochner::composed {

/// O = softmax(Q K^T / sqrt(D)) V, with Q, K, V (B, H, L, D).
Variable softmax_attention(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask);

}  // namespace bochner::composed
