// Causal kernel attention in chunks of 64 tokens, all chunks of a slab at once. Let m_i be the largest exponent of the
// keys that token i sees, F_q and F_k the features shifted by each token's own maximum, and r_c the m of the last token
// before chunk c. S'_c and T'_c are the sums, over the keys before the chunk, of phi v'^T (relative to r_c, without
// eps) and of v':
//
//   A_ij = e^(m_j - m_i) F_q,i . F_k,j + eps f_i   for j <= i in the chunk,   f_i = sum of F_q,i
//   O'_i = sum_j A_ij v'_j + e^(r_c - m_i) S'_c^T F_q,i + eps f_i T'_c
//
// Since m never decreases, no factor exceeds 1. Backward walks slabs and chunks from the last to the first, with R'_c,
// the gradient of S'_c, and t'_c, the gradient of T'_c:
//
//   dA_ij  = G'_i . v'_j
//   R'_c   = e^(r_c - r_(c+1)) R'_(c+1) + sum_i e^(r_c - m_i) F_q,i G'_i^T
//   t'_c   = t'_(c+1) + sum_i eps f_i G'_i
//   dF_q,i = sum_j dA_ij e^(m_j - m_i) F_k,j + e^(r_c - m_i) S'_c G'_i + eps (sum_j dA_ij + T'_c . G'_i)
//   dF_k,j = sum_i dA_ij e^(m_j - m_i) F_q,i + e^(m_j - r_(c+1)) R'_(c+1) v'_j
//   dv'_j  = sum_i A_ij G'_i + e^(m_j - r_(c+1)) R'_(c+1)^T F_k,j + t'_(c+1)
#include "engine/cuda/attention/kernel/causal_chunks.h"

namespace bochner::cuda {
namespace {

/// A slab of queries and keys: everything that forward computes from it, and backward recomputes.
template <class T>
class CausalSlab {
 public:
  CausalSlab(const KernelAttentionSpec& spec, const AttentionSizes& sizes, const Tensor& Q, const Tensor& K,
             const Tensor& V, const Tensor& Omega, const Tensor& keys, int64_t rows, bool backward)
      : sizes_(sizes),
        Q_(Q),
        K_(K),
        V_(V),
        mask_(keys),
        queries(spec, sizes, Omega, rows, backward),
        keys_(spec, sizes, Omega, rows, backward),
        values(sizes.jobs * rows * sizes.width),
        scaled(sizes.jobs * rows * sizes.width),
        m_(sizes.jobs * rows),
        before_(sizes.jobs),
        last_(sizes.jobs),
        feature_sums_(sizes.jobs * rows),
        states(sizes.jobs * (rows / kChunk) * sizes.features * sizes.width),
        totals(sizes.jobs * (rows / kChunk) * sizes.width),
        carried_S_(sizes.jobs * sizes.features * sizes.width),
        carried_totals_(sizes.jobs * sizes.width),
        A(sizes.jobs * rows * kChunk) {
    carried_S_.clear(sizes.jobs * sizes.features * sizes.width);
    carried_totals_.clear(sizes.jobs * sizes.width);
    launch_threads(sizes.jobs, Fill<T>{rule().shifts ? no_exponent<T>() : T(0), before_});
  }

  const FeatureRule<T>& rule() const { return queries.rule; }
  FeatureSlab<T>& keys() { return keys_; }
  const T* feature_sums() const { return rule().eps_later ? static_cast<const T*>(feature_sums_) : nullptr; }
  Shifts<T> shifts() const { return {rule().shifts, place.rows, m_, before_}; }
  int64_t chunks() const { return place.rows / kChunk; }
  int64_t count() const { return sizes_.jobs * place.rows; }

  /// Copies the state before the slab to or from a result.
  void carry(bool load, int64_t index, const Tensor& state) {
    const CarryState<T> kernel(sizes_, state, index, load, carried_S_, carried_totals_, before_);
    launch_threads(kernel.threads(), kernel);
  }
  /// Features, the states before each chunk, and A.
  void load(int64_t begin, int64_t end) {
    place = {sizes_.batch, sizes_.heads, begin, sizes_.queries, round_up(end - begin, kChunk)};
    SlabPlace key_place = place;
    key_place.length = sizes_.keys;
    const int64_t F = sizes_.features;
    const int64_t W = sizes_.width;
    launch_threads(count() * W, PackValues<T>{key_place, Tokens<const T>(V_), mask_, sizes_.value_dim, W, values});
    keys_.project(key_place, K_, mask_, values);
    queries.project(place, Q_, KeyMask{Tensor()}, nullptr);
    if (rule().shifts) {
      launch_threads(sizes_.jobs, RunningMaximum<T>{place.rows, keys_.tops(), before_, m_, last_});
    }
    keys_.key_features(m_, 1, !rule().eps_later);
    queries.query_features(rule().eps_later ? static_cast<T*>(feature_sums_) : nullptr);
    launch_threads(count() * W, ScaleRows<T>{shifts(), W, false, values, scaled});
    each_chunk(true, false, F, W, kChunk, keys_.F(), scaled, states, false);
    launch_threads(sizes_.jobs * F * W, ScanStates<T>{shifts(), chunks(), F * W, false, states, carried_S_});
    launch_threads(sizes_.jobs * W,
                   ScanRows<T>{place.rows, chunks(), W, false, nullptr, values, totals, carried_totals_});
    each_chunk(false, true, kChunk, kChunk, F, queries.F(), keys_.F(), A, false);
    launch_threads(count() * kChunk, Weights<T>{shifts(), feature_sums(), A});
  }
  /// To be called when the slab is done: m is carried to the next one.
  void advance() {
    if (rule().shifts) platform::copy(last_, before_, static_cast<size_t>(sizes_.jobs) * sizeof(T));
  }

  /// One product per chunk: C (m x n) = op(A) op(B) [+ C]; the matrices are consecutive in memory.
  void each_chunk(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c,
                  bool adds) const {
    products<T>(sizes_.jobs * chunks(), transpose_a, transpose_b, m, n, k, a, b, c, adds);
  }

 private:
  const AttentionSizes& sizes_;
  const Tensor& Q_;
  const Tensor& K_;
  const Tensor& V_;
  KeyMask mask_;

 public:
  SlabPlace place{};
  FeatureSlab<T> queries;

 private:
  FeatureSlab<T> keys_;

 public:
  DeviceBuffer<T> values, scaled;  ///< V', and times e^(m_j - r_(c+1))

 private:
  DeviceBuffer<T> m_, before_, last_, feature_sums_;

 public:
  DeviceBuffer<T> states, totals;  ///< S'_c and T'_c

 private:
  DeviceBuffer<T> carried_S_, carried_totals_;

 public:
  DeviceBuffer<T> A;
};

}  // namespace

template <class T>
void attend_causal(const KernelAttentionSpec& spec, const AttentionSizes& sizes, const Tensor& Q, const Tensor& K,
                   const Tensor& V, const Tensor& Omega, const Tensor& keys, const KernelAttentionResult& to) {
  const int64_t W = sizes.width;
  const int64_t rows = round_up(std::min(kKernelAttentionSegment, sizes.queries), kChunk);
  CausalSlab<T> slab(spec, sizes, Q, K, V, Omega, keys, rows, false);
  const DeviceBuffer<T> within(sizes.jobs * rows * W);
  for (int64_t index = 0; index * kKernelAttentionSegment < sizes.queries; ++index) {
    const int64_t begin = index * kKernelAttentionSegment;
    slab.carry(false, index, to.state);
    slab.load(begin, std::min(begin + kKernelAttentionSegment, sizes.queries));
    slab.each_chunk(false, false, kChunk, W, kChunk, slab.A, slab.values, within, false);
    slab.each_chunk(false, false, kChunk, W, sizes.features, slab.queries.F(), slab.states, slab.scaled, false);
    launch_rows(slab.count(), sizes.value_dim,
                CausalOutput<T>{slab.place, slab.shifts(), spec.renormalise, static_cast<T>(spec.denominator_eps),
                                sizes.value_dim, W, within, slab.scaled, slab.feature_sums(), slab.totals,
                                Tokens<T>(to.O), spec.renormalise ? to.denominator.data<T>() : nullptr});
    slab.advance();
  }
}

template <class T>
void attend_causal_backward(const KernelAttentionSpec& spec, const AttentionSizes& sizes, const Tensor& dO,
                            const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& Omega, const Tensor& keys,
                            const KernelAttentionResult& forward, const KernelAttentionGradients& to) {
  const int64_t W = sizes.width;
  const int64_t F = sizes.features;
  const int64_t rows = round_up(std::min(kKernelAttentionSegment, sizes.queries), kChunk);
  const int64_t chunks = rows / kChunk;
  const KeyMask mask(keys);
  CausalSlab<T> slab(spec, sizes, Q, K, V, Omega, keys, rows, true);
  const DeviceBuffer<T> G(sizes.jobs * rows * W);
  const DeviceBuffer<T> entering(sizes.jobs * rows * W);  // G' times e^(r_c - m_i)
  const DeviceBuffer<T> dA(sizes.jobs * rows * kChunk);
  const DeviceBuffer<T> flows(sizes.jobs * rows);
  const DeviceBuffer<T> R(sizes.jobs * chunks * F * W);
  const DeviceBuffer<T> t(sizes.jobs * chunks * W);
  const DeviceBuffer<T> carried_R(sizes.jobs * F * W);
  const DeviceBuffer<T> carried_t(sizes.jobs * W);
  carried_R.clear(sizes.jobs * F * W);
  carried_t.clear(sizes.jobs * W);
  const int64_t omega_size = to.dOmega.defined() ? sizes.jobs * sizes.frequencies * sizes.dim : 0;
  const DeviceBuffer<T> omega(omega_size);
  omega.clear(omega_size);
  T* const parts = to.dOmega.defined() ? static_cast<T*>(omega) : nullptr;
  // No query sees the keys after the last query.
  if (sizes.keys > sizes.queries) {
    to.dK.slice(2, sizes.queries, sizes.keys).fill_(0);
    to.dV.slice(2, sizes.queries, sizes.keys).fill_(0);
  }
  for (int64_t index = forward.state.size(2) - 1; index >= 0; --index) {
    const int64_t begin = index * kKernelAttentionSegment;
    slab.carry(true, index, forward.state);
    slab.load(begin, std::min(begin + kKernelAttentionSegment, sizes.queries));
    SlabPlace key_place = slab.place;
    key_place.length = std::min(sizes.keys, sizes.queries);
    launch_rows(slab.count(), W,
                PackGradients<T>{slab.place, Tokens<const T>(dO), Tokens<const T>(forward.O),
                                 spec.renormalise ? forward.denominator.data<T>() : nullptr, sizes.value_dim, W, G});
    launch_threads(slab.count() * W, ScaleRows<T>{slab.shifts(), W, true, G, entering});
    slab.each_chunk(true, false, F, W, kChunk, slab.queries.F(), entering, R, false);
    launch_threads(sizes.jobs * F * W, ScanStates<T>{slab.shifts(), slab.chunks(), F * W, true, R, carried_R});
    if (slab.rule().eps_later) {
      launch_threads(sizes.jobs * W,
                     ScanRows<T>{slab.place.rows, slab.chunks(), W, true, slab.feature_sums(), G, t, carried_t});
    } else {
      t.clear(sizes.jobs * slab.chunks() * W);
    }
    slab.each_chunk(false, true, kChunk, kChunk, W, G, slab.values, dA, false);
    launch_rows(slab.count(), kChunk, WeightGradients<T>{slab.shifts(), W, slab.rule().eps, G, slab.totals, dA, flows});
    // queries
    T* const dFq = slab.queries.dF();
    slab.each_chunk(false, true, kChunk, F, W, entering, slab.states, dFq, false);
    slab.each_chunk(false, false, kChunk, F, kChunk, dA, slab.keys().F(), dFq, true);
    if (slab.rule().eps_later) launch_threads(slab.count() * F, AddToRows<T>{F, flows, dFq});
    // keys
    T* const dFk = slab.keys().dF();
    slab.each_chunk(false, true, kChunk, F, W, slab.scaled, R, dFk, false);
    slab.each_chunk(true, false, kChunk, F, kChunk, dA, slab.queries.F(), dFk, true);
    // values, into memory in which G' and V' are no longer needed
    slab.each_chunk(true, false, kChunk, W, kChunk, slab.A, G, entering, false);
    slab.each_chunk(false, false, kChunk, W, F, slab.keys().F(), R, slab.scaled, false);
    launch_threads(slab.count() * sizes.value_dim, CausalValues<T>{key_place, slab.shifts(), mask, sizes.value_dim, W,
                                                                   entering, slab.scaled, t, Tokens<T>(to.dV)});
    slab.queries.backward(KeyMask{Tensor()}, to.dQ, parts);
    slab.keys().backward(mask, to.dK, parts);
  }
  if (parts != nullptr) reduce_omega<T>(sizes, parts, to.dOmega);
}

#define BOCHNER_INSTANTIATE(T)                                                                                       \
  template void attend_causal<T>(const KernelAttentionSpec&, const AttentionSizes&, const Tensor&, const Tensor&,    \
                                 const Tensor&, const Tensor&, const Tensor&, const KernelAttentionResult&);         \
  template void attend_causal_backward<T>(const KernelAttentionSpec&, const AttentionSizes&, const Tensor&,          \
                                          const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, \
                                          const KernelAttentionResult&, const KernelAttentionGradients&);
BOCHNER_INSTANTIATE(float)
BOCHNER_INSTANTIATE(double)
#undef BOCHNER_INSTANTIATE

}  // namespace bochner::cuda
