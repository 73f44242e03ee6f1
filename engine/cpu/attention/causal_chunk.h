// One chunk of causal kernel attention and the state that is carried from chunk to chunk, for forward and backward. The
// equations are in engine/cpu/attention/causal_kernel_attention.cpp.
#pragma once

#include <cmath>

#include "engine/cpu/attention/kernel_attention_parts.h"

namespace bochner::cpu {

/// How much m_i may rise within a chunk, in powers of two.
inline constexpr int kLargestRise = 40;

/// One chunk of one head: its tokens, features and weights.
template <class S>
class Chunk {
 public:
  using T = ComputeType<S>;
  Chunk(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, const Tensor& Q, const Tensor& K,
        const Tensor& V, const Frequencies& Omega, const KeyList& list, int64_t b, int64_t h)
      : spec_(spec),
        sizes_(sizes),
        list_(list),
        q_(rows_of<const S>(Q, b, h)),
        k_(rows_of<const S>(K, b, h)),
        v_(rows_of<const S>(V, b, h)),
        queries_(feature_tile<S>(spec, sizes, Omega, h)),
        keys_(feature_tile<S>(spec, sizes, Omega, h)),
        values_(kTile * sizes.value_dim),
        product_(std::max({kTile, sizes.features, sizes.value_dim}),
                 std::max({kTile, sizes.features, sizes.value_dim})) {
    std::fill_n(feature_sums_, kTile, T(0));
    std::fill_n(raise_, kTile, T(1));
  }

  FeatureTile<S>& queries() { return queries_; }
  FeatureTile<S>& keys() { return keys_; }
  const TileProduct<S>& product() const { return product_; }
  const T* V() const { return values_; }  ///< (key_count, value_dim)
  int64_t begin() const { return begin_; }
  int64_t count() const { return count_; }          ///< queries
  int64_t key_count() const { return key_count_; }  ///< real keys
  int64_t first_key() const { return first_key_; }  ///< in the list
  const T* raise() const { return raise_; }         ///< 2^(r - m_i)
  /// eps f_i, or 0 if eps is part of the keys' features.
  const T* feature_sums() const { return feature_sums_; }
  /// Is the key hidden from the first `hidden` queries of the chunk?
  int64_t hidden(int64_t key) const { return std::clamp<int64_t>(list_[first_key_ + key] - begin_, 0, count_); }

  /// Loads the tokens from `begin` on, at most up to `end`, and computes the keys' features. Raises the shift r and the
  /// largest exponent to those of the chunk, and returns the factor for S and z.
  T load_keys(int64_t begin, int64_t end, T& shift, T& largest) {
    begin_ = begin;
    count_ = std::min(kTile, end - begin);
    first_key_ = list_.before(begin);
    key_count_ = list_.before(begin + count_) - first_key_;
    keys_.project(k_, list_, first_key_, key_count_);
    const T factor = spec_.shifts() ? follow_exponents(shift, largest) : T(1);
    keys_.key_features(shift, !spec_.eps_comes_later());
    gather_rows<S>(v_, list_, first_key_, key_count_, sizes_.value_dim, values_);
    return factor;
  }

  /// The queries' features, times 2^(r - m_i).
  void load_queries() {
    queries_.project(q_, KeyList{nullptr, sizes_.queries}, begin_, count_);
    queries_.query_features();
    if (!spec_.shifts()) return;
    T* F = queries_.F();
    const T eps = spec_.eps_comes_later() ? static_cast<T>(spec_.map.eps) : T(0);
    struct Column {
      Vector<T> raise, sum;
    };
    down_columns<T>(
        sizes_.features, queries_.columns(),
        [&](int64_t i) {
          return Column{load<Vector<T>>(raise_ + i), Vector<T>{}};
        },
        [&](Column& column, int64_t, int64_t at) {
          const auto value = load<Vector<T>>(F + at);
          column.sum += value;
          store(F + at, value * column.raise);
        },
        [&](const Column& column, int64_t i) { store(feature_sums_ + i, column.sum * eps); });
  }

  /// Divides the queries' features by that factor again, for their derivative.
  void restore_queries() {
    if (!spec_.shifts()) return;
    T* F = queries_.F();
    down_columns<T>(
        sizes_.features, queries_.columns(),
        [&](int64_t i) {
          const auto raise = load<Vector<T>>(raise_ + i);
          return raise > 0 ? 1 / raise : Vector<T>{};
        },
        [&](const Vector<T>& inverse, int64_t, int64_t at) { store(F + at, load<Vector<T>>(F + at) * inverse); },
        [](const Vector<T>&, int64_t) {});
  }

  /// S += F_k V, z += F_k 1
  void add_to(const KernelState<T>& state) {
    const int64_t E = sizes_.value_dim;
    product_(sizes_.features, E, key_count_, keys_.F(), {kTile, 1}, values_, E, state.S, E, true);
    add_row_totals<T>(keys_.F(), nullptr, sizes_.features, keys_.columns(), state.z);
    if (!spec_.eps_comes_later()) return;
    for (int64_t j = 0; j < key_count_; ++j) {
      for (int64_t d = 0; d < E; ++d) state.totals[d] += values_[j * E + d];
    }
    *state.count += static_cast<T>(key_count_);
  }

  /// A^T (keys x queries): weights before normalisation.
  void weights(T* At) {
    const int64_t columns = queries_.columns();
    product_(key_count_, columns, sizes_.features, keys_.F(), {1, kTile}, queries_.F(), kTile, At, kTile);
    for (int64_t j = 0; j < key_count_; ++j) {
      T* row = At + j * kTile;
      for (int64_t i = 0; i < columns && spec_.eps_comes_later(); ++i) row[i] += feature_sums_[i];
      std::fill_n(row, hidden(j), T(0));
    }
  }

 private:
  /// Finds m_i, and ends the chunk if it rises too far.
  T follow_exponents(T& shift, T& largest) {
    alignas(64) T top[kTile];
    keys_.key_exponents(top);
    T first = kNothing<T>;  // of the first query that sees a key
    int64_t key = 0;
    int64_t i = 0;
    for (; i < count_; ++i) {
      T m = largest;
      for (; key < key_count_ && list_[first_key_ + key] <= begin_ + i; ++key) m = std::max(m, top[key]);
      if (first == kNothing<T>) first = m;
      if (m > first + kLargestRise) break;
      raise_[i] = largest = m;
    }
    count_ = i;
    key_count_ = list_.before(begin_ + count_) - first_key_;
    keys_.truncate(key_count_);
    T factor = 1;
    if (largest > shift + kSlack) {
      factor = std::exp2(shift - largest);
      shift = largest;
    }
    for (int64_t c = 0; c < kTile; ++c) {
      const bool sees = c < count_ && raise_[c] > kNothing<T>;
      raise_[c] = sees ? std::exp2(shift - raise_[c]) : T(0);
    }
    return factor;
  }

  const KernelAttentionSpec& spec_;
  const KernelAttentionSizes& sizes_;
  KeyList list_;
  Rows<const S> q_;
  Rows<const S> k_;
  Rows<const S> v_;
  FeatureTile<S> queries_;
  FeatureTile<S> keys_;
  Buffer<T> values_;
  TileProduct<S> product_;
  alignas(64) T raise_[kTile];
  alignas(64) T feature_sums_[kTile];
  int64_t begin_ = 0;
  int64_t count_ = 0;
  int64_t first_key_ = 0;
  int64_t key_count_ = 0;
};

/// S, z and their shift, carried along a head.
template <class S>
struct Carried {
  using T = ComputeType<S>;
  Carried(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes)
      : size(kernel_attention_state_size(sizes.features, sizes.value_dim)), memory(size), state(memory, sizes) {
    std::fill_n(static_cast<T*>(memory), size, T(0));
    if (spec.shifts()) *state.shift = *state.largest = kNothing<T>;
  }
  void save(T* to) const { std::copy_n(static_cast<const T*>(memory), size, to); }
  void load(const T* from) { std::copy_n(from, size, static_cast<T*>(memory)); }
  /// Loads a chunk's keys and rescales S and z to its shift; returns the factor.
  T advance(Chunk<S>& chunk, int64_t begin, int64_t end) {
    const T factor = chunk.load_keys(begin, end, *state.shift, *state.largest);
    for (T* at = state.S; at < state.totals && factor != 1; ++at) *at *= factor;
    return factor;
  }

  int64_t size;
  Buffer<T> memory;
  KernelState<T> state;
};

}  // namespace bochner::cpu
