// Softmax attention (Vaswani et al., 2017), streaming: the length x length scores are never written to memory. (On a
// GPU, backward in f32 writes dS for some queries at a time, into memory of a fixed size.)
//
//   O_i = sum_j P_ij v_j,   P_ij = exp(s_ij - lse_i),   s_ij = scale q_i . k_j,   lse_i = log sum_j exp(s_ij)
//
// Keys come in tiles; for each query, a running sum and the running O are rescaled whenever the running maximum grows
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
// Backward recomputes the scores from lse:
//
//   dV_j = sum_i P_ij dO_i,   dS_ij = P_ij (dO_i . v_j - dO_i . O_i),   dQ = scale dS K,   dK = scale dS^T Q
//
// With dropout (engine/ops/dropout.h), P_ij is multiplied by the factor of element ((b H + h) Lq + i) Lk + j in O, but
// not in lse; backward draws the factor again.
//
// If sequences are cut into slices (engine/comm/sequence_slices.h), each call has the queries and keys of one slice.
// The keys and values of each slice are passed round a ring to the others (ring attention: Liu et al., 2023); in
// backward this is done again, and the parts of dK and dV are then passed to the slice that they belong to. Every query
// takes in the keys of slices 0, 1, 2, ... in this order; in the causal form, those of later slices do not come. So
// slices that begin at multiples of 64 tokens have O, lse and dQ of the whole bit for bit, if hidden keys are only at
// the end; dK and dV are added slice by slice, and equal those of the whole up to rounding.
#pragma once

#include "engine/ops/attention/attention_shapes.h"
#include "engine/ops/dropout.h"
#include "engine/tensor.h"

namespace bochner {

class SequenceSlice;

struct SoftmaxAttentionOptions {
  double scale = 1;     ///< usually 1 / sqrt(D)
  bool causal = false;  ///< query i sees keys j <= i only
  Dropout dropout;      ///< of P, (B, H, Lq, Lk) elements, where Lk are the keys of all slices
  /// Where Q, K and V are a slice of their sequences, on the CPU; null: they are whole. All slices have masks, or none
  /// has one.
  SequenceSlice* slice = nullptr;
};

struct SoftmaxAttended {
  Tensor O;          ///< (B, H, Lq, E)
  Tensor logsumexp;  ///< (B, H, Lq), -inf where a query sees no key
};

/// Q (B, H, Lq, D), K (B, H, Lk, D), V (B, H, Lk, E), f32, f64 or bf16 (logsumexp in f32), of any strides: views of a
/// joint projection are read in place. `key_mask` (B, Lk) is true at real keys, or undefined; other keys are never
/// read. A query that sees no key gets zeros. O is laid out as (B, Lq, H, E), so that heads can be joined without a
/// copy.
SoftmaxAttended softmax_attention(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                                  const SoftmaxAttentionOptions& options);

/// From dO (B, H, Lq, E), with the inputs and the result of the forward call. Gradients of the same shape are views of
/// one (B, L, 3, H, D) tensor.
AttentionGradients softmax_attention_backward(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                              const Tensor& key_mask, const SoftmaxAttended& attended,
                                              const SoftmaxAttentionOptions& options);

}  // namespace bochner
