// Attention in plain differentiable ops, as the papers write it: the teaching text, and the oracle of the streaming
// kernels. Memory grows with length x length (softmax) or length x features (kernels).
#pragma once

#include "autograd/variable.h"
#include "engine/ops/feature_map.h"
#include "layers/mask.h"

namespace bochner::composed {

/// O = softmax(Q K^T / sqrt(D)) V, with Q, K, V (B, H, L, D).
Variable softmax_attention(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask);

/// phi(x) of shape (B, H, L, features) for x (B, H, L, D) already scaled, and Omega (1 or H, M, D); an undefined Omega
/// means u = x. The shift is the largest exponent: of each token for queries, of each (batch, head) over real tokens
/// for keys. It cancels in the attention but for eps, and no gradient flows through it.
Variable feature_map(const FeatureMap& map, const Variable& x, const Variable& Omega, bool is_key, const Mask& mask);

struct KernelAttentionOptions {
  bool renormalise = true;        ///< divide by the sum of the weights
  double denominator_eps = 1e-6;  ///< added to that sum (KL, fast-transformers)
};

/// O_i = phi(q_i)^T sum_j phi(k_j) v_j^T / (phi(q_i)^T sum_j phi(k_j) + eps), from features (B, H, L, M) and V (B, H,
/// L, D): PERF Eq. 3, KL Eq. 1.
Variable kernel_attention(const Variable& phi_q, const Variable& phi_k, const Variable& V, const Mask& mask,
                          const KernelAttentionOptions& options);

}  // namespace bochner::composed
