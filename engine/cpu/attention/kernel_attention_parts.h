// Common to the bidirectional and the causal kernel attention.
#pragma once

#include "engine/cpu/attention/attention_tile.h"
#include "engine/cpu/attention/feature_tile.h"
#include "engine/cpu/bf16/factors.h"
#include "engine/cpu/parts/column_sum.h"
#include "engine/cpu/parts/row_sums.h"
#include "engine/ops/attention/kernel_attention.h"
#include "engine/ops/weight_sums.h"

namespace bochner::cpu {

/// The frequencies of a head, null if there are none.
template <class T>
const T* values_of(const Frequencies& Omega, int64_t h) {
  if (!Omega.defined()) return nullptr;
  const Tensor& values = Omega.values;
  return values.data<T>() + (values.size(0) == 1 ? 0 : h) * values.size(1) * values.size(2);
}

/// A tile of a head's queries or keys, stored as S, whose features are factors of products as `sides` says.
template <class S, class T = ComputeType<S>>
FeatureTile<S> feature_tile(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes,
                            const Frequencies& Omega, int64_t h, Sides sides = Sides::none) {
  if (Omega.fastfood.has_value()) {
    const Tensor& order = Omega.fastfood->permutation;
    const FastFood<T> fastfood{values_of<T>(Omega, h), order.data<int64_t>(), order.size(0), order.size(1)};
    return {spec.map, fastfood, sizes.frequencies, sizes.dim, spec.scale, spec.shifts(), sides};
  }
  return {spec.map, values_of<T>(Omega, h), sizes.frequencies, sizes.dim, spec.scale, spec.shifts(), sides};
}

/// One state in a result.
template <class T>
struct KernelState {
  T* S;       ///< (features, value_dim), relative to the shift
  T* z;       ///< (features)
  T* totals;  ///< (value_dim): the sum of all values, to be multiplied by eps
  T* shift;
  T* largest;
  T* count;

  KernelState(T* memory, const KernelAttentionSizes& sizes)
      : S(memory),
        z(S + sizes.features * sizes.value_dim),
        totals(z + sizes.features),
        shift(totals + sizes.value_dim),
        largest(shift + 1),
        count(largest + 1) {}
};

template <class T>
KernelState<T> state_of(const Tensor& states, const KernelAttentionSizes& sizes, int64_t head, int64_t index) {
  return {states.data<T>() + (head * states.size(2) + index) * states.size(3), sizes};
}

/// X^T of a tile of tokens X (count x dim) as the right factor of products: packed from the rows if products take bf16,
/// otherwise transposed first. S is the type of the activations.
template <class S>
class TransposedTokens {
 public:
  using T = ComputeType<S>;
  explicit TransposedTokens(int64_t dim) : dim_(dim), factor_(kTile, dim), transposed_(kPacks ? 1 : dim * kTile) {}

  /// For `count` <= kTile tokens, stored as S or T; columns from count to the next whole vector are 0. Valid until the
  /// next call.
  template <class E>
  Right<S> load(Rows<const E> from, int64_t count) const {
    if constexpr (kPacks) {
      return factor_.right(dim_, count, from.data, {1, from.stride});
    } else {
      load_transposed<E>(from, count, dim_, T(1), transposed_);
      return factor_.right(dim_, columns_of<T>(count), static_cast<const T*>(transposed_), {kTile, 1});
    }
  }

 private:
  static constexpr bool kPacks = std::is_same_v<S, bfloat16>;
  int64_t dim_;
  Factor<S> factor_;
  Buffer<T> transposed_;
};

/// The gradients of the numerators and denominators of a tile of queries:  G = dO / denominator,  g = -(dO .
/// O) / denominator.
template <class S>
class OutputGradient {
 public:
  using T = ComputeType<S>;
  OutputGradient(const KernelAttentionSpec& spec, int64_t value_dim)
      : spec_(spec), value_dim_(value_dim), G_(kTile * value_dim) {}

  void read(Rows<const S> dO, Rows<const S> O, const T* denominators, int64_t count);

  Rows<const T> G() const { return {G_, value_dim_}; }  ///< (count x value_dim)
  const T* g() const { return g_; }                     ///< (kTile), 0 without renormalisation and beyond count

 private:
  const KernelAttentionSpec& spec_;
  int64_t value_dim_;
  Buffer<T> G_;
  alignas(64) T g_[kTile] = {};
};

template <class S>
void OutputGradient<S>::read(Rows<const S> dO, Rows<const S> O, const T* denominators, int64_t count) {
  const int64_t E = value_dim_;
  T* const G = G_;
  prefetch_next(dO, count, E);
  if (spec_.renormalise) prefetch_next(O, count, E);
  for (int64_t i = 0; i < count; ++i) {
    const T inverse = spec_.renormalise ? inverse_in_gradients(denominators[i]) : T(1);
    const S* from = dO[i];
    for_lanes<T>(E, [=]<class V>(TypeTag<V>, int64_t d) { store<V>(G + i * E + d, load<V>(from + d) * inverse); });
  }
  if (!spec_.renormalise) return;
  for_row_blocks(count, [&]<int R>(int64_t i, std::integral_constant<int, R>) {
    const std::array<T, R> products = row_sums<T, R>(
        E, [&]<class V>(TypeTag<V>, int r, int64_t d) { return load<V>(G + (i + r) * E + d) * load<V>(O[i + r] + d); });
    for (int r = 0; r < R; ++r) g_[i + r] = -products[static_cast<size_t>(r)];
  });
  std::fill(g_ + count, g_ + kTile, T(0));
}

/// dOmega from parts (batch, heads, pieces, M, D), summed in this order over pieces, batch and, if the heads share
/// Omega, heads.
template <class T>
void reduce_omega(const T* parts, const KernelAttentionSizes& sizes, int64_t pieces, double scale,
                  const Tensor& dOmega);

template <class S>
void attend_causal(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, const Tensor& Q, const Tensor& K,
                   const Tensor& V, const Frequencies& Omega, const KeyLists& lists, const KernelAttentionResult& to);
template <class S>
void attend_causal_backward(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, const Tensor& dO,
                            const Tensor& Q, const Tensor& K, const Tensor& V, const Frequencies& Omega,
                            const KeyLists& lists, const KernelAttentionResult& forward,
                            const KernelAttentionGradients& to);

}  // namespace bochner::cpu
