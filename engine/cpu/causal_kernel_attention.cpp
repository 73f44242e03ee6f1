// Causal kernel attention in chunks of up to 64 tokens. With the state S, z of earlier chunks, relative to a shift r,
// and keys F_k = 2^(exponent - r) of this one, all features transposed (features x tokens):
//
//   A^T = visible o (F_k^T F_q),   O^T = (S^T F_q + V^T A^T) / n,   n = F_q^T z + A 1;   then S += F_k V, z += F_k 1
//
// Query i is due the shift m_i, the largest exponent among the keys it sees: F_q is multiplied by 2^(r - m_i). The
// features' eps, which no shift scales, adds eps f_i to each visible weight, f_i being the sum of the query's features.
#include <cmath>

#include "engine/cpu/kernel_attention_parts.h"
#include "engine/cpu/tile_product.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

/// By how much m_i may rise within a chunk, in powers of two.
constexpr int kLargestRise = 40;

/// One chunk of one head: its tokens, features and weights.
template <class T>
class Chunk {
 public:
  Chunk(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, const Tensor& Q, const Tensor& K,
        const Tensor& V, const Tensor& Omega, const KeyList& list, int64_t b, int64_t h)
      : spec_(spec),
        sizes_(sizes),
        list_(list),
        q_(rows_of<const T>(Q, b, h)),
        k_(rows_of<const T>(K, b, h)),
        v_(rows_of<const T>(V, b, h)),
        queries_(feature_tile<T>(spec, sizes, Omega, h)),
        keys_(feature_tile<T>(spec, sizes, Omega, h)),
        values_(kTile * sizes.value_dim) {
    std::fill_n(feature_sums_, kTile, T(0));
    std::fill_n(raise_, kTile, T(1));
  }

  FeatureTile<T>& queries() { return queries_; }
  FeatureTile<T>& keys() { return keys_; }
  const T* V() const { return values_; }  ///< (key_count, value_dim)
  int64_t begin() const { return begin_; }
  int64_t count() const { return count_; }          ///< queries
  int64_t key_count() const { return key_count_; }  ///< real keys
  int64_t first_key() const { return first_key_; }  ///< in the list
  const T* raise() const { return raise_; }         ///< 2^(r - m_i)
  /// eps f_i, 0 where eps is part of the keys' features.
  const T* feature_sums() const { return feature_sums_; }
  /// Is the key hidden from the first `hidden` queries of the chunk?
  int64_t hidden(int64_t key) const { return std::clamp<int64_t>(list_[first_key_ + key] - begin_, 0, count_); }

  /// Takes the tokens from `begin` on, no further than `end`, and makes the keys' features. Raises the shift r and the
  /// largest exponent to those of the chunk; what S and z are to be multiplied by is returned.
  T load_keys(int64_t begin, int64_t end, T& shift, T& largest) {
    begin_ = begin;
    count_ = std::min(kTile, end - begin);
    first_key_ = list_.before(begin);
    key_count_ = list_.before(begin + count_) - first_key_;
    keys_.project(k_, list_, first_key_, key_count_);
    const T factor = spec_.shifts() ? follow_exponents(shift, largest) : T(1);
    keys_.key_features(shift, !eps_comes_later(spec_));
    gather_rows<T>(v_, list_, first_key_, key_count_, sizes_.value_dim, values_);
    return factor;
  }

  /// The queries' features, times 2^(r - m_i).
  void load_queries() {
    queries_.project(q_, KeyList{nullptr, sizes_.queries}, begin_, count_);
    queries_.query_features();
    T* F = queries_.F();
    for (int64_t i = 0; i < queries_.columns() && spec_.shifts(); i += kLanes<T>) {
      const auto raise = load<Vector<T>>(raise_ + i);
      Vector<T> sum{};
      for (int64_t m = 0; m < sizes_.features; ++m) {
        const auto value = load<Vector<T>>(F + m * kTile + i);
        sum += value;
        store(F + m * kTile + i, value * raise);
      }
      store(feature_sums_ + i, eps_comes_later(spec_) ? sum * static_cast<T>(spec_.map.eps) : Vector<T>{});
    }
  }

  /// Takes the factor off the queries' features again, as their derivative wants them.
  void restore_queries() {
    T* F = queries_.F();
    for (int64_t i = 0; i < queries_.columns() && spec_.shifts(); i += kLanes<T>) {
      const auto raise = load<Vector<T>>(raise_ + i);
      const auto inverse = raise > 0 ? 1 / raise : Vector<T>{};
      for (int64_t m = 0; m < sizes_.features; ++m) {
        store(F + m * kTile + i, load<Vector<T>>(F + m * kTile + i) * inverse);
      }
    }
  }

  /// S += F_k V, z += F_k 1
  void add_to(const KernelState<T>& state) {
    const int64_t E = sizes_.value_dim;
    tile_product<T>(sizes_.features, E, key_count_, keys_.F(), {kTile, 1}, values_, E, state.S, E, true);
    for (int64_t m = 0; m < sizes_.features; ++m) {
      Vector<T> sum{};
      for (int64_t i = 0; i < keys_.columns(); i += kLanes<T>) sum += load<Vector<T>>(keys_.F() + m * kTile + i);
      alignas(64) T lanes[kLanes<T>];
      store(lanes, sum);
      state.z[m] += lanes_total<T>(lanes);
    }
    for (int64_t j = 0; j < key_count_; ++j) {
      for (int64_t d = 0; d < E; ++d) state.totals[d] += values_[j * E + d];
    }
    *state.count += static_cast<T>(key_count_);
  }

  /// A^T (keys x queries): weights before normalisation.
  void weights(T* At) {
    const int64_t columns = queries_.columns();
    tile_product<T>(key_count_, columns, sizes_.features, keys_.F(), {1, kTile}, queries_.F(), kTile, At, kTile);
    for (int64_t j = 0; j < key_count_; ++j) {
      T* row = At + j * kTile;
      for (int64_t i = 0; i < columns; ++i) row[i] += feature_sums_[i];
      std::fill_n(row, hidden(j), T(0));
    }
  }

 private:
  /// Finds m_i and cuts the chunk where it rises too far.
  T follow_exponents(T& shift, T& largest) {
    alignas(64) T top[kTile];
    keys_.key_exponents(top);
    T first = kNoExponent<T>;  // of the first query that sees a key
    int64_t key = 0;
    int64_t i = 0;
    for (; i < count_; ++i) {
      T m = largest;
      for (; key < key_count_ && list_[first_key_ + key] <= begin_ + i; ++key) m = std::max(m, top[key]);
      if (first == kNoExponent<T>) first = m;
      if (m > first + kLargestRise) break;
      raise_[i] = largest = m;
    }
    count_ = i;
    key_count_ = list_.before(begin_ + count_) - first_key_;
    keys_.truncate(key_count_);
    T factor = 1;
    if (largest > shift + kShiftSlack) {
      factor = std::exp2(shift - largest);
      shift = largest;
    }
    for (int64_t c = 0; c < kTile; ++c) {
      const bool sees = c < count_ && raise_[c] > kNoExponent<T>;
      raise_[c] = sees ? std::exp2(shift - raise_[c]) : T(0);
    }
    return factor;
  }

  const KernelAttentionSpec& spec_;
  const KernelAttentionSizes& sizes_;
  KeyList list_;
  Rows<const T> q_;
  Rows<const T> k_;
  Rows<const T> v_;
  FeatureTile<T> queries_;
  FeatureTile<T> keys_;
  Buffer<T> values_;
  alignas(64) T raise_[kTile];
  alignas(64) T feature_sums_[kTile];
  int64_t begin_ = 0;
  int64_t count_ = 0;
  int64_t first_key_ = 0;
  int64_t key_count_ = 0;
};

/// S, z and what belongs to them, carried along a head.
template <class T>
struct Carried {
  Carried(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes)
      : size(kernel_attention_state_size(sizes.features, sizes.value_dim)), memory(size), state(memory, sizes) {
    std::fill_n(static_cast<T*>(memory), size, T(0));
    if (spec.shifts()) *state.shift = *state.largest = kNoExponent<T>;
  }
  void save(T* to) const { std::copy_n(static_cast<const T*>(memory), size, to); }
  void load(const T* from) { std::copy_n(from, size, static_cast<T*>(memory)); }
  /// Loads a chunk's keys and brings S and z to its shift; returns the factor.
  T advance(Chunk<T>& chunk, int64_t begin, int64_t end) {
    const T factor = chunk.load_keys(begin, end, *state.shift, *state.largest);
    for (T* at = state.S; at < state.totals && factor != 1; ++at) *at *= factor;
    return factor;
  }

  int64_t size;
  Buffer<T> memory;
  KernelState<T> state;
};

/// O of a chunk.
template <class T>
void attend_chunk(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, Chunk<T>& chunk,
                  const KernelState<T>& state, T* At, T* Ot, T* denominators, Rows<T> O) {
  const int64_t E = sizes.value_dim;
  const int64_t F = sizes.features;
  const int64_t columns = chunk.queries().columns();
  const T* Fq = chunk.queries().F();
  chunk.weights(At);
  tile_product<T>(E, columns, F, state.S, {1, E}, Fq, kTile, Ot, kTile);                          // S^T F
  tile_product<T>(E, columns, chunk.key_count(), chunk.V(), {1, E}, At, kTile, Ot, kTile, true);  // + V^T A^T
  if (eps_comes_later(spec)) {
    for (int64_t d = 0; d < E; ++d) {
      for (int64_t i = 0; i < columns; ++i) Ot[d * kTile + i] += chunk.feature_sums()[i] * state.totals[d];
    }
  }
  alignas(64) T factors[kTile];
  std::fill_n(factors, kTile, T(1));
  if (spec.renormalise) {
    weighted_column_sums<T>(Fq, state.z, F, columns, factors);
    for (int64_t j = 0; j < chunk.key_count(); ++j) {
      for (int64_t i = 0; i < columns; ++i) factors[i] += At[j * kTile + i];
    }
    for (int64_t i = 0; i < chunk.count(); ++i) {
      factors[i] += chunk.feature_sums()[i] * *state.count;
      denominators[i] = factors[i] + static_cast<T>(spec.denominator_eps);
      factors[i] = denominators[i] != 0 ? 1 / denominators[i] : T(0);
    }
  }
  store_transposed<T>(Ot, factors, chunk.count(), E, O);
}

}  // namespace

template <class T>
void attend_causal(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, const Tensor& Q, const Tensor& K,
                   const Tensor& V, const Tensor& Omega, const KeyLists& lists, const KernelAttentionResult& to) {
  parallel_for(sizes.batch * sizes.heads, 1, [&](int64_t head, int64_t) {
    const int64_t b = head / sizes.heads;
    const int64_t h = head % sizes.heads;
    const auto o = rows_of<T>(to.O, b, h);
    const KeyList seen{lists[b].positions, lists[b].before(sizes.queries)};
    Chunk<T> chunk(spec, sizes, Q, K, V, Omega, seen, b, h);
    Carried<T> carried(spec, sizes);
    const Buffer<T> At(kTile * kTile);
    const Buffer<T> Ot(sizes.value_dim * kTile);
    for (int64_t segment = 0; segment * kKernelAttentionSegment < sizes.queries; ++segment) {
      carried.save(state_of<T>(to.state, sizes, head, segment).S);
      const int64_t end = std::min((segment + 1) * kKernelAttentionSegment, sizes.queries);
      for (int64_t i = segment * kKernelAttentionSegment; i < end; i += chunk.count()) {
        carried.advance(chunk, i, end);
        chunk.load_queries();
        T* denominators = spec.renormalise ? to.denominator.data<T>() + head * sizes.queries + i : nullptr;
        attend_chunk<T>(spec, sizes, chunk, carried.state, At, Ot, denominators, {o[i], o.stride});
        chunk.add_to(carried.state);
      }
    }
  });
}

namespace {

/// The backward pass of one head. States of a segment are computed again from the saved one; then its chunks are walked
/// from the last to the first with R = dS, r = dz, the gradients of the state behind the chunk, relative to its shift:
///
///   dA^T = visible o (V G^T + 1 g^T),   dF_q = S G^T + z g^T + F_k dA^T (times 2^(r - m_i)),   dV = F_k^T R + A^T G,
///   dF_k = R V^T + r 1^T + F_q dA,      R += F_q G,   r += F_q g
template <class T>
class CausalBackward {
 public:
  CausalBackward(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, Chunk<T>& chunk, T* dOmega)
      : spec_(spec),
        sizes_(sizes),
        chunk_(chunk),
        dOmega_(dOmega),
        output_(spec, sizes.value_dim),
        R_(sizes.features * sizes.value_dim),
        r_(sizes.features),
        value_gradients_(sizes.value_dim),
        dF_(sizes.features * kTile),
        dXt_(sizes.dim * kTile),
        At_(kTile * kTile),
        dAt_(kTile * kTile),
        dA_(kTile * kTile),
        scaled_(sizes.value_dim * kTile),
        Vt_(sizes.value_dim * kTile),
        scratch_(kTile * std::max(sizes.dim, sizes.value_dim)) {
    std::fill_n(static_cast<T*>(R_), sizes.features * sizes.value_dim, T(0));
    std::fill_n(static_cast<T*>(r_), sizes.features, T(0));
    std::fill_n(static_cast<T*>(value_gradients_), sizes.value_dim, T(0));
    std::fill_n(scales_, kTile, static_cast<T>(spec.scale));
    std::fill_n(ones_, kTile, T(1));
  }

  /// One chunk, whose keys and queries are loaded; `before` is the state before it, `factor` what its shift takes from
  /// R and r of the chunk behind.
  void run(const KernelState<T>& before, T factor, Rows<const T> dO, Rows<const T> O, const T* denominators, Rows<T> dQ,
           Rows<T> dK, Rows<T> dV, const KeyList& list) {
    const int64_t E = sizes_.value_dim;
    const int64_t F = sizes_.features;
    const int64_t n = chunk_.count();
    const int64_t keys = chunk_.key_count();
    const int64_t i = chunk_.begin();
    const int64_t columns = chunk_.queries().columns();
    const T* Fq = chunk_.queries().F();
    const T* Fk = chunk_.keys().F();
    if (factor != 1) {
      for (int64_t at = 0; at < F * E; ++at) R_[at] *= factor;
      for (int64_t m = 0; m < F; ++m) r_[m] *= factor;
    }
    output_.load({dO[i], dO.stride}, {O[i], O.stride}, denominators, n);
    chunk_.weights(At_);
    weight_gradients(columns);

    key_side(list, dK, dV, n, keys);  // needs F_q and F_k as they are: the gradients of features overwrite nothing

    // dF_q: columns of G, g and dA^T are first multiplied by 2^(r - m_i).
    alignas(64) T g[kTile];
    const T* raise = chunk_.raise();
    for (int64_t c = 0; c < columns; ++c) g[c] = output_.g()[c] * raise[c];
    fill_eps_gradient(before, columns);
    for (int64_t d = 0; d < E; ++d) {
      for (int64_t c = 0; c < columns; ++c) scaled_[d * kTile + c] = output_.Gt()[d * kTile + c] * raise[c];
    }
    for (int64_t j = 0; j < keys; ++j) {
      for (int64_t c = 0; c < columns; ++c) dAt_[j * kTile + c] *= raise[c];
    }
    tile_product<T>(F, columns, E, before.S, {E, 1}, scaled_, kTile, dF_, kTile, true);
    tile_product<T>(F, columns, keys, Fk, {kTile, 1}, dAt_, kTile, dF_, kTile, true);
    // R += F_q G, r += F_q g, before F_q is needed without its factor
    tile_product<T>(F, E, n, Fq, {kTile, 1}, output_.G(), E, R_, E, true);
    for (int64_t m = 0; m < F && spec_.renormalise; ++m) {
      Vector<T> sum{};
      for (int64_t c = 0; c < columns; c += kLanes<T>) {
        sum += load<Vector<T>>(Fq + m * kTile + c) * load<Vector<T>>(output_.g() + c);
      }
      alignas(64) T lanes[kLanes<T>];
      store(lanes, sum);
      r_[m] += lanes_total<T>(lanes);
    }
    for (int64_t d = 0; d < E && eps_comes_later(spec_); ++d) {
      for (int64_t c = 0; c < n; ++c) value_gradients_[d] += chunk_.feature_sums()[c] * output_.Gt()[d * kTile + c];
    }
    chunk_.restore_queries();
    chunk_.queries().backward(dF_, before.z, g, dXt_, dOmega_);
    store_transposed<T>(dXt_, scales_, n, sizes_.dim, {dQ[i], dQ.stride});
  }

 private:
  /// dA^T = visible o (V G^T + 1 g^T)
  void weight_gradients(int64_t columns) {
    const int64_t E = sizes_.value_dim;
    for (int64_t j = 0; j < chunk_.key_count(); ++j) std::copy_n(output_.g(), columns, dAt_ + j * kTile);
    tile_product<T>(chunk_.key_count(), columns, E, chunk_.V(), {E, 1}, output_.Gt(), kTile, dAt_, kTile, true);
    for (int64_t j = 0; j < chunk_.key_count(); ++j) std::fill_n(dAt_ + j * kTile, chunk_.hidden(j), T(0));
  }

  void key_side(const KeyList& list, Rows<T> dK, Rows<T> dV, int64_t n, int64_t keys) {
    if (keys == 0) return;
    const int64_t E = sizes_.value_dim;
    const int64_t F = sizes_.features;
    const int64_t columns = columns_of<T>(keys);
    const T* Fk = chunk_.keys().F();
    for (int64_t j = 0; j < keys; ++j) std::copy_n(static_cast<const T*>(value_gradients_), E, scratch_ + j * E);
    tile_product<T>(keys, E, F, Fk, {1, kTile}, R_, E, scratch_, E, true);
    tile_product<T>(keys, E, n, At_, {kTile, 1}, output_.G(), E, scratch_, E, true);
    for (int64_t j = 0; j < keys; ++j) std::copy_n(scratch_ + j * E, E, dV[list[chunk_.first_key() + j]]);

    load_transposed<T>({dAt_, kTile}, keys, n, T(1), dA_);
    load_transposed<T>({chunk_.V(), E}, keys, E, T(1), Vt_);
    tile_product<T>(F, columns, E, R_, {E, 1}, Vt_, kTile, dF_, kTile);
    tile_product<T>(F, columns, n, chunk_.queries().F(), {kTile, 1}, dA_, kTile, dF_, kTile, true);
    chunk_.keys().backward(dF_, r_, ones_, dXt_, dOmega_);
    store_transposed<T>(dXt_, scales_, list, chunk_.first_key(), keys, sizes_.dim, scratch_, dK);
  }

  /// dF_q of eps f_i (sum of visible values and their number): the same for all features.
  void fill_eps_gradient(const KernelState<T>& before, int64_t columns) {
    const int64_t F = sizes_.features;
    if (!eps_comes_later(spec_)) {
      std::fill_n(static_cast<T*>(dF_), F * kTile, T(0));
      return;
    }
    alignas(64) T sums[kTile] = {};
    weighted_column_sums<T>(output_.Gt(), before.totals, sizes_.value_dim, columns, sums);
    for (int64_t c = 0; c < columns; ++c) sums[c] += output_.g()[c] * *before.count;
    for (int64_t j = 0; j < chunk_.key_count(); ++j) {
      for (int64_t c = 0; c < columns; ++c) sums[c] += dAt_[j * kTile + c];
    }
    for (T& sum : sums) sum *= static_cast<T>(spec_.map.eps);
    for (int64_t m = 0; m < F; ++m) std::copy_n(sums, kTile, dF_ + m * kTile);
  }

  const KernelAttentionSpec& spec_;
  const KernelAttentionSizes& sizes_;
  Chunk<T>& chunk_;
  T* dOmega_;
  OutputGradient<T> output_;
  Buffer<T> R_;
  Buffer<T> r_;
  Buffer<T> value_gradients_;  ///< of the sum of values, by eps
  Buffer<T> dF_;
  Buffer<T> dXt_;
  Buffer<T> At_;
  Buffer<T> dAt_;
  Buffer<T> dA_;
  Buffer<T> scaled_;
  Buffer<T> Vt_;
  Buffer<T> scratch_;
  alignas(64) T scales_[kTile];
  alignas(64) T ones_[kTile];
};

}  // namespace

template <class T>
void attend_causal_backward(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, const Tensor& dO,
                            const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& Omega,
                            const KeyLists& lists, const KernelAttentionResult& forward,
                            const KernelAttentionGradients& to) {
  const int64_t jobs = sizes.batch * sizes.heads;
  const int64_t omega_size = sizes.omega;
  const Buffer<T> omega_parts(to.dOmega.defined() ? jobs * omega_size : 1);
  parallel_for(jobs, 1, [&](int64_t head, int64_t) {
    const int64_t b = head / sizes.heads;
    const int64_t h = head % sizes.heads;
    const KeyList seen{lists[b].positions, lists[b].before(sizes.queries)};
    const auto o = rows_of<const T>(forward.O, b, h);
    const auto go = rows_of<const T>(dO, b, h);
    const auto dq = rows_of<T>(to.dQ, b, h);
    const auto dk = rows_of<T>(to.dK, b, h);
    const auto dv = rows_of<T>(to.dV, b, h);
    T* dOmega = nullptr;
    if (to.dOmega.defined()) {
      dOmega = omega_parts + head * omega_size;
      std::fill_n(dOmega, omega_size, T(0));
    }
    Chunk<T> chunk(spec, sizes, Q, K, V, Omega, seen, b, h);
    Carried<T> carried(spec, sizes);
    CausalBackward<T> backward(spec, sizes, chunk, dOmega);
    struct Visited {
      int64_t begin;
      T shift, largest;  ///< before it
      T factor;          ///< of S and z on entry
      Buffer<T> state;   ///< before it, at its shift
    };
    std::vector<Visited> visited;
    T factor = 1;
    for (int64_t segment = forward.state.size(2) - 1; segment >= 0; --segment) {
      const int64_t end = std::min((segment + 1) * kKernelAttentionSegment, sizes.queries);
      carried.load(state_of<T>(forward.state, sizes, head, segment).S);
      size_t count = 0;
      for (int64_t i = segment * kKernelAttentionSegment; i < end; i += chunk.count(), ++count) {
        if (count == visited.size()) visited.push_back({0, 0, 0, 0, Buffer<T>(carried.size)});
        Visited& place = visited[count];
        place.begin = i;
        place.shift = *carried.state.shift;
        place.largest = *carried.state.largest;
        place.factor = carried.advance(chunk, i, end);
        carried.save(place.state);
        chunk.add_to(carried.state);
      }
      while (count > 0) {
        Visited& place = visited[--count];
        chunk.load_keys(place.begin, end, place.shift, place.largest);
        chunk.load_queries();
        const T* denominators =
            spec.renormalise ? forward.denominator.data<T>() + head * sizes.queries + place.begin : nullptr;
        backward.run(KernelState<T>(place.state, sizes), factor, go, o, denominators, dq, dk, dv, seen);
        factor = place.factor;
      }
    }
    clear_unlisted(seen, sizes.keys, sizes.dim, dk);
    clear_unlisted(seen, sizes.keys, sizes.value_dim, dv);
  });
  if (to.dOmega.defined()) reduce_omega<T>(omega_parts, sizes, 1, spec.scale, to.dOmega);
}

#define BOCHNER_INSTANTIATE(T)                                                                                         \
  template void attend_causal<T>(const KernelAttentionSpec&, const KernelAttentionSizes&, const Tensor&,               \
                                 const Tensor&, const Tensor&, const Tensor&, const KeyLists&,                         \
                                 const KernelAttentionResult&);                                                        \
  template void attend_causal_backward<T>(const KernelAttentionSpec&, const KernelAttentionSizes&, const Tensor&,      \
                                          const Tensor&, const Tensor&, const Tensor&, const Tensor&, const KeyLists&, \
                                          const KernelAttentionResult&, const KernelAttentionGradients&);
BOCHNER_INSTANTIATE(float)
BOCHNER_INSTANTIATE(double)
#undef BOCHNER_INSTANTIATE

}  // namespace bochner::cpu
