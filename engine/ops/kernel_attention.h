// Kernel attention, streaming: for feature maps phi (feature_map.h) and u = scale Omega x,
//
//   O_i = phi(q_i)^T S / (phi(q_i)^T z + eps),   S = sum_j phi(k_j) v_j^T  (F x D),   z = sum_j phi(k_j)      (PERF Eq.
//   3, KL Eq. 1)
//
// Keys are walked in tiles that update S and z, then queries in tiles; the length x F features are never written.
// Exponents of positive features are shifted by their maximum, which cancels: of each query over its features, of the
// keys of a (batch, head) over all real keys, kept as a running maximum while S and z are rescaled. Backward computes
// the features again, tile by tile; no gradient flows through the shifts. The causal form walks chunks, S and z being
// carried from one to the next, and finds the keys' maximum in a pass before.
#pragma once

#include "engine/ops/feature_map.h"
#include "engine/tensor.h"

namespace bochner {

struct KernelAttentionSpec {
  FeatureMap map;
  double scale = 1;            ///< of x, before Omega
  bool causal = false;         ///< query i sees keys 0 ... i
  bool renormalise = true;     ///< divide by the sum of weights
  double denominator_eps = 0;  ///< added to that sum

  /// Are exponents shifted? Only where the shift cancels: in a quotient of features that all carry it.
  bool shifts() const { return map.has_exponent() && renormalise && map.constant == 0; }
};

/// What forward keeps for backward: little beside Q, K and V.
struct KernelAttentionResult {
  Tensor O;            ///< (B, H, Lq, D); lies in memory as (B, Lq, H, D)
  Tensor state;        ///< (B, H, F, D + 1): S and, as the last column, z; undefined if causal
  Tensor shift;        ///< (B, H): the maximum of the keys' exponents
  Tensor denominator;  ///< (B, H, Lq)
};

/// Q (B, H, Lq, D), K, V (B, H, Lk, D); Omega (1 or H, M, D), undefined: u = scale x. keys bool (B, Lk), true at real
/// tokens, or undefined. f32 or f64. Queries that see no key get zeros where the denominator's eps is positive.
KernelAttentionResult kernel_attention(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K,
                                       const Tensor& V, const Tensor& Omega, const Tensor& keys);

struct KernelAttentionGradients {
  Tensor dQ, dK, dV;  ///< views of one (B, L, 3, H, D) tensor where Lq = Lk
  Tensor dOmega;      ///< as Omega; undefined unless asked for
};

KernelAttentionGradients kernel_attention_backward(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q,
                                                   const Tensor& K, const Tensor& V, const Tensor& Omega,
                                                   const Tensor& keys, const KernelAttentionResult& forward,
                                                   bool need_dOmega);

}  // namespace bochner
