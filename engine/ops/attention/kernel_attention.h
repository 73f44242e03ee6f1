// Kernel attention, streaming: for feature maps phi (feature_map.h) and u = scale Omega x,
//
//   O_i = phi(q_i)^T S / (phi(q_i)^T z + eps)                                                   (PERF Eq. 4, KL Eq. 1)
//   S = sum_j phi(k_j) v_j^T  (F x D),   z = sum_j phi(k_j)
//
// Tiles of keys update S and z, then queries follow in tiles; the length x F features are never written. Exponents of
// positive features are shifted by their maximum, which cancels except for the features' eps. A query's shift is the
// maximum over its features; the keys of a (batch, head) share the maximum over all real keys, a running maximum with
// which S and z are rescaled. Backward recomputes the features, tile by tile; the shifts get no gradient.
//
// The causal form walks through chunks of up to 64 tokens and carries S and z from one to the next. Its shift is the
// largest exponent among the keys that the query sees, so a result does not depend on later tokens, not even through
// eps. A chunk ends early if the shift rises by more than 40 powers of two within it.
//
// If sequences are cut into slices (engine/comm/sequence_slices.h), each call has the queries and keys of one slice.
// Then S and z are summed over the slices, and so are their gradients in backward; in the causal form, the state after
// the last token of a slice is where the next one starts, and its gradient goes the other way. Heads are handed over in
// a few groups, so that a slice can begin with the first ones while the slice before it works on others. Nothing else
// needs another slice.
#pragma once

#include "engine/ops/features/feature_map.h"
#include "engine/ops/features/frequencies.h"
#include "engine/tensor.h"

namespace bochner {

class SequenceSlice;

struct KernelAttentionSpec {
  FeatureMap map;
  double scale = 1;            ///< of x, before Omega
  bool causal = false;         ///< query i sees keys 0 ... i
  bool renormalise = true;     ///< divide by the sum of weights
  double denominator_eps = 0;  ///< added to that sum
  /// Where Q, K and V are a slice of their sequences, on the CPU; null: they are whole.
  SequenceSlice* slice = nullptr;

  /// Are exponents shifted? Only if the shift cancels: in a quotient of features that all carry it.
  bool shifts() const { return map.has_exponent() && renormalise && map.constant == 0; }
  /// Is eps left out of the keys' features while their shift is not final?
  bool eps_comes_later() const {
    return shifts() && map.kind != FeatureMap::Kind::softmax_trigonometric && map.eps != 0 && !map.absolute_eps;
  }
};

struct KernelAttentionSizes {
  int64_t batch, heads, queries, keys, dim, value_dim, frequencies, features;
  int64_t omega;  ///< elements of a head's frequencies, as given

  KernelAttentionSizes(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                       const Frequencies& Omega)
      : batch(Q.size(0)),
        heads(Q.size(1)),
        queries(Q.size(2)),
        keys(K.size(2)),
        dim(Q.size(3)),
        value_dim(V.size(3)),
        frequencies(Omega.count(dim)),
        features(spec.map.rows(frequencies)),
        omega(Omega.defined() ? Omega.values.size(1) * Omega.values.size(2) : 0) {}
};

/// What forward keeps for backward, which is little compared with Q, K and V.
struct KernelAttentionResult {
  Tensor O;            ///< (B, H, Lq, E); lies in memory as (B, Lq, H, E)
  Tensor state;        ///< (B, H, 1, n): S, z and the shift of all keys; causal: before every 1024 tokens
  Tensor denominator;  ///< (B, H, Lq); undefined without renormalisation
};

/// Tokens between two saved states of the causal form.
inline constexpr int64_t kKernelAttentionSegment = 1024;
/// Elements of one state: S (F, E), z (F), sum_j v_j (E), shift, largest exponent, number of keys.
inline int64_t kernel_attention_state_size(int64_t features, int64_t value_dim) {
  return features * value_dim + features + value_dim + 3;
}

/// Q (B, H, Lq, D), K (B, H, Lk, D), V (B, H, Lk, E), f32 or f64, or bf16 with Omega and the state in f32, with any
/// strides: views of a joint projection are read in place. Omega is dense or, on the CPU, FastFood; if it is undefined,
/// u = scale x. keys bool (B, Lk) is true at real tokens, or undefined; other keys are never read. A query that sees no
/// key gets zeros.
KernelAttentionResult kernel_attention(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K,
                                       const Tensor& V, const Frequencies& Omega, const Tensor& keys);

struct KernelAttentionGradients {
  Tensor dQ, dK, dV;  ///< views of one (B, L, 3, H, D) tensor where Lq = Lk and D = E
  Tensor dOmega;      ///< as the values of Omega; undefined unless asked for
};

KernelAttentionGradients kernel_attention_backward(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q,
                                                   const Tensor& K, const Tensor& V, const Frequencies& Omega,
                                                   const Tensor& keys, const KernelAttentionResult& forward,
                                                   bool need_dOmega);

}  // namespace bochner
