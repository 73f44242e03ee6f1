// Causal kernel attention in chunks of 64 tokens, all chunks of a slab at once. With m_i the largest exponent of the
// keys that token i sees, F_q and F_k shifted by each token's own, r_c = m of the last token before chunk c, and S'_c,
// T'_c the sums over keys before it of phi v'^T (relative to r_c, without eps) and of v':
//
//   A_ij = e^(m_j - m_i) F_q,i . F_k,j + eps f_i   for j <= i in the chunk,   f_i = sum of F_q,i
//   O'_i = sum_j A_ij v'_j + e^(r_c - m_i) S'_c^T F_q,i + eps f_i T'_c
//
// Since m never falls, no factor exceeds 1. Backward walks slabs and chunks from the last to the first with R'_c, the
// gradient of S'_c, and t'_c, that of T'_c:
//
//   dA_ij = G'_i . v'_j,   R'_c = e^(r_c - r_(c+1)) R'_(c+1) + sum_i e^(r_c - m_i) F_q,i G'_i^T,   t'_c = t'_(c+1) +
//   sum_i eps f_i G'_i dF_q,i = sum_j dA_ij e^(m_j - m_i) F_k,j + e^(r_c - m_i) S'_c G'_i + eps (sum_j dA_ij + T'_c .
//   G'_i) dF_k,j = sum_i dA_ij e^(m_j - m_i) F_q,i + e^(m_j - r_(c+1)) R'_(c+1) v'_j dv'_j = sum_i A_ij G'_i + e^(m_j -
//   r_(c+1)) R'_(c+1)^T F_k,j + t'_(c+1)
#include "engine/cuda/kernel_attention_parts.h"

namespace bochner::cuda {
namespace {

constexpr int64_t kChunk = 64;

int64_t rounded_up(int64_t count) { return (count + kChunk - 1) / kChunk * kChunk; }

/// What all kernels of a slab know of it: m and where its chunks are.
template <class T>
struct Shifts {
  bool shifts;
  int64_t rows;     ///< of a slab, a multiple of kChunk
  const T* m;       ///< (jobs, rows)
  const T* before;  ///< (jobs): m of the last token before the slab

  BOCHNER_DEVICE T at(int64_t job, int64_t row) const { return row < 0 ? before[job] : m[job * rows + row]; }
  /// e^(m of token `from` - m of token `to`), both of the slab, or -1 for the one before it.
  BOCHNER_DEVICE T factor(int64_t job, int64_t from, int64_t to) const {
    return shifts ? math::exp(at(job, from) - at(job, to)) : T(1);
  }
};

/// m from the exponents of keys: a thread for each job walks the slab. `last` is m of its last token.
template <class T>
struct RunningMaximum {
  int64_t rows;
  const T *tops, *before;
  T *m, *last;
  BOCHNER_DEVICE void operator()(int64_t job) const {
    T largest = before[job];
    for (int64_t row = 0; row < rows; ++row) {
      const T top = tops[job * rows + row];
      largest = top > largest ? top : largest;
      m[job * rows + row] = largest;
    }
    last[job] = largest;
  }
};

/// to (jobs, rows, width) = from times e^(m_row - r_(c+1)), or, `enters`, e^(r_c - m_row).
template <class T>
struct ScaleRows {
  Shifts<T> shifts;
  int64_t width;
  bool enters;
  const T* from;
  T* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / width / shifts.rows;
    const int64_t row = i / width % shifts.rows;
    const int64_t chunk = row / kChunk;
    const T factor =
        enters ? shifts.factor(job, chunk * kChunk - 1, row) : shifts.factor(job, row, (chunk + 1) * kChunk - 1);
    to[i] = factor * from[i];
  }
};

/// A thread for each element of S': from what each chunk adds (jobs, chunks, size), in place, to the state before each
/// chunk; the carried state becomes that behind the slab. Backward the same from the last chunk to the first: to the
/// gradient of the state behind each chunk.
template <class T>
struct ScanStates {
  Shifts<T> shifts;
  int64_t chunks, size;
  bool backward;
  T *states, *carried;  ///< carried (jobs, size)
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / size;
    T value = carried[i];
    for (int64_t step = 0; step < chunks; ++step) {
      const int64_t chunk = backward ? chunks - 1 - step : step;
      T& place = states[(job * chunks + chunk) * size + i % size];
      const T added = place;
      place = value;
      value = value * shifts.factor(job, chunk * kChunk - 1, (chunk + 1) * kChunk - 1) + added;
    }
    carried[i] = value;
  }
};

/// A thread for each column: sums (jobs, chunks, width) of weight times the rows of earlier chunks (later ones where
/// backward), from `carried` on.
template <class T>
struct ScanRows {
  int64_t rows, chunks, width;
  bool backward;
  const T* weights;  ///< (jobs, rows), or null for 1
  const T* x;        ///< (jobs, rows, width)
  T *sums, *carried;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / width;
    const int64_t column = i % width;
    T value = carried[i];
    for (int64_t step = 0; step < chunks; ++step) {
      const int64_t chunk = backward ? chunks - 1 - step : step;
      sums[(job * chunks + chunk) * width + column] = value;
      for (int64_t row = job * rows + chunk * kChunk; row < job * rows + (chunk + 1) * kChunk; ++row) {
        value += (weights == nullptr ? T(1) : weights[row]) * x[row * width + column];
      }
    }
    carried[i] = value;
  }
};

/// A (jobs, rows, kChunk) from F_q F_k^T.
template <class T>
struct Weights {
  Shifts<T> shifts;
  const T* feature_sums;  ///< eps f_i, or null
  T* A;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / kChunk / shifts.rows;
    const int64_t row = i / kChunk % shifts.rows;
    const int64_t column = i % kChunk;
    if (column > row % kChunk) {
      A[i] = 0;
      return;
    }
    const T value = A[i] * shifts.factor(job, row / kChunk * kChunk + column, row);
    A[i] = feature_sums == nullptr ? value : value + feature_sums[i / kChunk];
  }
};

/// dA_ij e^(m_j - m_i) in place of dA_ij = G'_i . v'_j, 0 where not visible; flows[row] = eps (sum_j dA_ij + T'_c .
/// G'_i). A team for each row.
template <class T>
struct WeightGradients {
  Shifts<T> shifts;
  int64_t width;
  T eps;
  const T *G, *totals;  ///< (jobs, rows, width), (jobs, chunks, width)
  T *dA, *flows;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t job = team.index() / shifts.rows;
    const int64_t row = team.index() % shifts.rows;
    const int64_t chunk = row / kChunk;
    T* d = dA + team.index() * kChunk;
    T sum = 0;
    for (int64_t j = team.rank(); j < kChunk; j += team.size()) {
      const bool visible = j <= row % kChunk;
      if (visible) sum += d[j];
      d[j] = visible ? d[j] * shifts.factor(job, chunk * kChunk + j, row) : T(0);
    }
    const T* total = totals + (job * (shifts.rows / kChunk) + chunk) * width;
    for (int64_t j = team.rank(); j < width; j += team.size()) sum += total[j] * G[team.index() * width + j];
    sum = team.sum(sum);
    if (team.rank() == 0) flows[team.index()] = eps * sum;
  }
};

template <class T>
struct AddToRows {
  int64_t width;
  const T* rows;
  T* to;
  BOCHNER_DEVICE void operator()(int64_t i) const { to[i] += rows[i / width]; }
};

/// O and the denominators; a team for each row.
template <class T>
struct Output {
  SlabPlace place;
  Shifts<T> shifts;
  bool renormalise;
  T eps;
  int64_t value_dim, width;
  const T *within, *entering;  ///< A V' and F_q S'_c
  const T *feature_sums, *totals;
  Tokens<T> O;
  T* denominators;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const auto token = place.at(team.index());
    if (!token.there) return;
    const int64_t chunk = token.row / kChunk;
    const T factor = shifts.factor(token.job, chunk * kChunk - 1, token.row);
    const T weight = feature_sums == nullptr ? T(0) : feature_sums[team.index()];
    const T* total = totals + (token.job * (shifts.rows / kChunk) + chunk) * width;
    const auto value = [&](int64_t j) {
      const int64_t at = team.index() * width + j;
      return within[at] + factor * entering[at] + weight * total[j];
    };
    const T denominator = renormalise ? value(value_dim) + eps : T(1);
    const T inverse = denominator != T(0) ? T(1) / denominator : T(0);
    T* to = O.head(token.b, token.h) + token.token * O.stride;
    for (int64_t j = team.rank(); j < value_dim; j += team.size()) to[j] = value(j) * inverse;
    if (renormalise && team.rank() == 0) {
      denominators[(token.b * place.heads + token.h) * place.length + token.token] = denominator;
    }
  }
};

template <class T>
struct UnpackValues {
  SlabPlace place;
  Shifts<T> shifts;
  KeyMask mask;
  int64_t value_dim, width;
  const T *within, *leaving, *totals;  ///< A^T G', F_k R'_(c+1), t'_(c+1)
  Tokens<T> dV;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t slab_row = i / value_dim;
    const int64_t j = i % value_dim;
    const auto token = place.at(slab_row);
    if (!token.there) return;
    const int64_t chunk = token.row / kChunk;
    const T factor = shifts.factor(token.job, token.row, (chunk + 1) * kChunk - 1);
    const int64_t at = slab_row * width + j;
    const T value =
        within[at] + factor * leaving[at] + totals[(token.job * (shifts.rows / kChunk) + chunk) * width + j];
    dV.head(token.b, token.h)[token.token * dV.stride + j] = mask.real(token.b, token.token) ? value : T(0);
  }
};

/// Between what is carried into a slab and its state in a result: S' and T' without their padding, then m.
template <class T>
struct CarriedState {
  int64_t batch, heads, features, width, value_dim, states, index, size;
  bool load;
  T *S, *totals, *m, *state;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t kept = value_dim + 1;
    const int64_t each = (features + 1) * width + 1;
    const int64_t job = i / each;
    const int64_t at = i % each;
    T* own = state + ((job % batch * heads + job / batch) * states + index) * size;
    if (at == each - 1) {
      T& saved = own[(features + 1) * kept];
      load ? m[job] = saved : saved = m[job];
      return;
    }
    T& value = at < features * width ? S[job * features * width + at] : totals[job * width + at - features * width];
    if (at % width >= kept) {
      if (load) value = 0;
      return;
    }
    T& saved = own[at / width * kept + at % width];
    load ? value = saved : saved = value;
  }
};

template <class T>
struct Fill {
  T value;
  T* to;
  BOCHNER_DEVICE void operator()(int64_t i) const { to[i] = value; }
};

/// A slab of queries and keys: everything that forward makes of it, and backward again.
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

  /// The state before the slab, to or from a result.
  void carry(bool load, int64_t index, const Tensor& state) {
    launch_threads(
        sizes_.jobs * ((sizes_.features + 1) * sizes_.width + 1),
        CarriedState<T>{sizes_.batch, sizes_.heads, sizes_.features, sizes_.width, sizes_.value_dim, state.size(2),
                        index, state.size(3), load, carried_S_, carried_totals_, before_, state.data<T>()});
  }
  /// Features, the states before each chunk, and A.
  void load(int64_t begin, int64_t end) {
    place = {sizes_.batch, sizes_.heads, begin, sizes_.queries, rounded_up(end - begin)};
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
  /// To be called when the slab is done: m goes on to the next.
  void advance() {
    if (rule().shifts) platform::copy(last_, before_, static_cast<size_t>(sizes_.jobs) * sizeof(T));
  }

  /// One product for each chunk: C (m x n) = op(A) op(B) [+ C], all matrices one behind the other.
  void each_chunk(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c,
                  bool adds) const {
    gemm(dtype_of<T>, {transpose_a, transpose_b, m, n, k, a, transpose_a ? m : k, m * k, b, transpose_b ? k : n, k * n,
                       c, n, m * n, sizes_.jobs * chunks(), 1, adds ? 1.0 : 0.0});
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
  const int64_t rows = rounded_up(std::min(kKernelAttentionSegment, sizes.queries));
  CausalSlab<T> slab(spec, sizes, Q, K, V, Omega, keys, rows, false);
  const DeviceBuffer<T> within(sizes.jobs * rows * W);
  for (int64_t index = 0; index * kKernelAttentionSegment < sizes.queries; ++index) {
    const int64_t begin = index * kKernelAttentionSegment;
    slab.carry(false, index, to.state);
    slab.load(begin, std::min(begin + kKernelAttentionSegment, sizes.queries));
    slab.each_chunk(false, false, kChunk, W, kChunk, slab.A, slab.values, within, false);
    slab.each_chunk(false, false, kChunk, W, sizes.features, slab.queries.F(), slab.states, slab.scaled, false);
    launch_rows(slab.count(), sizes.value_dim,
                Output<T>{slab.place, slab.shifts(), spec.renormalise, static_cast<T>(spec.denominator_eps),
                          sizes.value_dim, W, within, slab.scaled, slab.feature_sums(), slab.totals, Tokens<T>(to.O),
                          spec.renormalise ? to.denominator.data<T>() : nullptr});
    slab.advance();
  }
}

template <class T>
void attend_causal_backward(const KernelAttentionSpec& spec, const AttentionSizes& sizes, const Tensor& dO,
                            const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& Omega, const Tensor& keys,
                            const KernelAttentionResult& forward, const KernelAttentionGradients& to) {
  const int64_t W = sizes.width;
  const int64_t F = sizes.features;
  const int64_t rows = rounded_up(std::min(kKernelAttentionSegment, sizes.queries));
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
  // Keys behind the last query are seen by none.
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
    // values: into what G' and V' no longer need
    slab.each_chunk(true, false, kChunk, W, kChunk, slab.A, G, entering, false);
    slab.each_chunk(false, false, kChunk, W, F, slab.keys().F(), R, slab.scaled, false);
    launch_threads(slab.count() * sizes.value_dim, UnpackValues<T>{key_place, slab.shifts(), mask, sizes.value_dim, W,
                                                                   entering, slab.scaled, t, Tokens<T>(to.dV)});
    slab.queries.backward(true, KeyMask{Tensor()}, to.dQ, parts);
    slab.keys().backward(!slab.rule().eps_later, mask, to.dK, parts);
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
