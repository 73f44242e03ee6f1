// Causal kernel attention in chunks of up to 64 tokens. With the state S, z of earlier chunks, relative to a shift r,
// and the keys F_k = 2^(exponent - r) of this chunk, all features transposed (features x tokens):
//
//   A^T = visible o (F_k^T F_q),   O^T = (S^T F_q + V^T A^T) / n,   n = F_q^T z + A 1;   then S += F_k V, z += F_k 1
//
// Query i has the shift m_i, the largest exponent among the keys that it sees, so F_q is multiplied by 2^(r - m_i). The
// features' eps, which no shift scales, adds eps f_i to each visible weight, where f_i is the sum of the query's
// features.
#include <array>
#include <utility>

#include "engine/comm/sequence_slices.h"
#include "engine/cpu/attention/causal_chunk.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

/// O of a chunk.
template <class S>
void attend_chunk(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, Chunk<S>& chunk,
                  const KernelState<ComputeType<S>>& state, ComputeType<S>* At, ComputeType<S>* Ot,
                  ComputeType<S>* denominators, Rows<S> O) {
  using T = ComputeType<S>;
  const int64_t E = sizes.value_dim;
  const int64_t F = sizes.features;
  const int64_t columns = chunk.queries().columns();
  const T* Fq = chunk.queries().F();
  chunk.weights(At);
  const TileProduct<S>& product = chunk.product();
  product(E, columns, F, state.S, {1, E}, Fq, kTile, Ot, kTile);                          // S^T F
  product(E, columns, chunk.key_count(), chunk.V(), {1, E}, At, kTile, Ot, kTile, true);  // + V^T A^T
  if (spec.eps_comes_later()) {
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
      factors[i] = inverse_of_weights(denominators[i]);
    }
  }
  store_transposed<S>(Ot, factors, chunk.count(), E, O);
}

/// The number of groups in which the heads of a slice are handed over to the next slice, which waits only for the first
/// group. It is the same for all processes, however many threads they have.
constexpr int64_t kGroups = 4;

/// body(head, carried) for the heads of all examples, where `carried` are `size` elements that a slice of sequences
/// gets from its neighbour, starts with, and leaves for the next slice: null if sequences are whole. `start` fills
/// those of the first slice.
template <class T, class Body, class Start>
void for_heads(const KernelAttentionSpec& spec, int64_t jobs, SequenceSlice::Way way, int64_t size, const Start& start,
               const Body& body) {
  if (spec.slice == nullptr) {
    parallel_for(jobs, 1, [&](int64_t head, int64_t) { body(head, static_cast<T*>(nullptr)); });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, ceil_div(jobs, kGroups));
  for (int64_t begin = 0; begin < jobs; begin += grain) {
    const int64_t count = std::min(grain, jobs - begin);
    Tensor carried = Tensor::zeros({count, size}, dtype_of<T>);
    for (int64_t i = 0; i < count; ++i) start(carried.data<T>() + i * size);
    carried = spec.slice->carry_in(way, carried);
    parallel_for(count, 1, [&](int64_t i, int64_t) { body(begin + i, carried.data<T>() + i * size); });
    spec.slice->carry_out(way, carried);
  }
}

}  // namespace

template <class S>
void attend_causal(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, const Tensor& Q, const Tensor& K,
                   const Tensor& V, const Frequencies& Omega, const KeyLists& lists, const KernelAttentionResult& to) {
  using T = ComputeType<S>;
  const auto start = [&](T* to_start) { Carried<S>(spec, sizes).save(to_start); };
  const int64_t size = kernel_attention_state_size(sizes.features, sizes.value_dim);
  const auto attend_head = [&](int64_t head, T* before) {
    const int64_t b = head / sizes.heads;
    const int64_t h = head % sizes.heads;
    const auto o = rows_of<S>(to.O, b, h);
    const KeyList seen{lists[b].positions, lists[b].before(sizes.queries)};
    Chunk<S> chunk(spec, sizes, Q, K, V, Omega, seen, b, h);
    Carried<S> carried(spec, sizes);
    if (before != nullptr) carried.load(before);
    const Buffer<T> At(kTile * kTile);
    const Buffer<T> Ot(sizes.value_dim * kTile);
    for (int64_t segment = 0; segment * kKernelAttentionSegment < sizes.queries; ++segment) {
      carried.save(state_of<T>(to.state, sizes, head, segment).S);
      const int64_t end = std::min((segment + 1) * kKernelAttentionSegment, sizes.queries);
      for (int64_t i = segment * kKernelAttentionSegment; i < end; i += chunk.count()) {
        carried.advance(chunk, i, end);
        chunk.load_queries();
        T* denominators = spec.renormalise ? to.denominator.data<T>() + head * sizes.queries + i : nullptr;
        attend_chunk<S>(spec, sizes, chunk, carried.state, At, Ot, denominators, {o[i], o.stride});
        chunk.add_to(carried.state);
      }
    }
    if (before != nullptr) carried.save(before);
  };
  for_heads<T>(spec, sizes.batch * sizes.heads, SequenceSlice::Way::forward, size, start, attend_head);
}

namespace {

/// The backward pass of one head. The states of a segment are recomputed from the saved one. Then its chunks are walked
/// from the last to the first with R = dS and r = dz, the gradients of the state after the chunk, relative to its
/// shift:
///
///   dA^T = visible o (V G^T + 1 g^T),   dF_q = S G^T + z g^T + F_k dA^T (times 2^(r - m_i)),   dV = F_k^T R + A^T G,
///   dF_k = R V^T + r 1^T + F_q dA,      R += F_q G,   r += F_q g
template <class S>
class CausalBackward {
 public:
  using T = ComputeType<S>;
  CausalBackward(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, Chunk<S>& chunk, T* dOmega)
      : spec_(spec),
        sizes_(sizes),
        chunk_(chunk),
        product_(chunk.product()),
        dOmega_(dOmega),
        output_(spec, sizes.value_dim),
        Gt_(sizes.value_dim * kTile),
        R_(sizes.features * sizes.value_dim),
        r_(sizes.features),
        value_gradients_(sizes.value_dim),
        At_(kTile * kTile),
        dAt_(kTile * kTile),
        dA_(kTile * kTile),
        scaled_(sizes.value_dim * kTile),
        Vt_(sizes.value_dim * kTile),
        sums_(kTile * sizes.value_dim),
        scratch_(kTile * sizes.dim) {
    std::fill_n(static_cast<T*>(R_), sizes.features * sizes.value_dim, T(0));
    std::fill_n(static_cast<T*>(r_), sizes.features, T(0));
    std::fill_n(static_cast<T*>(value_gradients_), sizes.value_dim, T(0));
    std::fill_n(scales_, kTile, static_cast<T>(spec.scale));
    std::fill_n(ones_, kTile, T(1));
  }

  /// The number of elements that load() and save() move: R, r, and the gradient of the sum of values.
  static int64_t size(const KernelAttentionSizes& sizes) {
    return sizes.features * (sizes.value_dim + 1) + sizes.value_dim;
  }
  /// Continues from what a later slice has saved, ...
  void load(const T* from) {
    for (const auto& [part, count] : parts()) {
      std::copy_n(from, count, part);
      from += count;
    }
  }
  /// ... and saves it for an earlier one.
  void save(T* to) const {
    for (const auto& [part, count] : parts()) to = std::copy_n(static_cast<const T*>(part), count, to);
  }

  /// One chunk, whose keys and queries are loaded. `before` is the state before it, and `factor` rescales R and r of
  /// the next chunk to its shift.
  void run(const KernelState<T>& before, T factor, Rows<const S> dO, Rows<const S> O, const T* denominators, Rows<S> dQ,
           Rows<S> dK, Rows<S> dV, const KeyList& list) {
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
    output_.read({dO[i], dO.stride}, {O[i], O.stride}, denominators, n);
    load_transposed<T>(output_.G(), n, E, T(1), Gt_);
    chunk_.weights(At_);
    weight_gradients(columns);

    key_side(list, dK, dV, n, keys);  // needs F_q and F_k unchanged

    // dF_q: columns of G, g and dA^T are first multiplied by 2^(r - m_i).
    alignas(64) T g[kTile];
    std::copy_n(output_.g(), kTile, g);
    const bool eps = spec_.eps_comes_later();
    if (eps) fill_eps_gradient(before, columns);
    const T* Gt = spec_.shifts() ? raised(g, columns) : static_cast<const T*>(Gt_);
    product_(F, columns, E, before.S, {E, 1}, Gt, kTile, chunk_.queries().dF(), kTile, eps);
    product_(F, columns, keys, Fk, {kTile, 1}, dAt_, kTile, chunk_.queries().dF(), kTile, true);
    // R += F_q G, r += F_q g, before F_q is needed without its factor
    product_(F, E, n, Fq, {kTile, 1}, output_.G().data, E, R_, E, true);
    if (spec_.renormalise) add_row_totals<T>(Fq, output_.g(), F, columns, r_);
    for (int64_t d = 0; d < E && eps; ++d) {
      for (int64_t c = 0; c < n; ++c) value_gradients_[d] += chunk_.feature_sums()[c] * Gt_[d * kTile + c];
    }
    chunk_.restore_queries();
    const T* dXt = chunk_.queries().backward(before.z, g, dOmega_);
    store_transposed<S>(dXt, scales_, n, sizes_.dim, {dQ[i], dQ.stride});
  }

 private:
  std::array<std::pair<T*, int64_t>, 3> parts() const {
    return {{{R_, sizes_.features * sizes_.value_dim}, {r_, sizes_.features}, {value_gradients_, sizes_.value_dim}}};
  }

  /// Multiplies g and the columns of dA^T by 2^(r - m_i), and returns G^T multiplied likewise.
  const T* raised(T* g, int64_t columns) {
    const T* raise = chunk_.raise();
    for (int64_t c = 0; c < columns; ++c) g[c] *= raise[c];
    for (int64_t d = 0; d < sizes_.value_dim; ++d) {
      for (int64_t c = 0; c < columns; ++c) scaled_[d * kTile + c] = Gt_[d * kTile + c] * raise[c];
    }
    for (int64_t j = 0; j < chunk_.key_count(); ++j) {
      for (int64_t c = 0; c < columns; ++c) dAt_[j * kTile + c] *= raise[c];
    }
    return scaled_;
  }

  /// dA^T = visible o (V G^T + 1 g^T)
  void weight_gradients(int64_t columns) {
    const int64_t E = sizes_.value_dim;
    for (int64_t j = 0; j < chunk_.key_count(); ++j) std::copy_n(output_.g(), columns, dAt_ + j * kTile);
    product_(chunk_.key_count(), columns, E, chunk_.V(), {E, 1}, Gt_, kTile, dAt_, kTile, true);
    for (int64_t j = 0; j < chunk_.key_count(); ++j) std::fill_n(dAt_ + j * kTile, chunk_.hidden(j), T(0));
  }

  void key_side(const KeyList& list, Rows<S> dK, Rows<S> dV, int64_t n, int64_t keys) {
    if (keys == 0) return;
    const int64_t E = sizes_.value_dim;
    const int64_t F = sizes_.features;
    const int64_t columns = columns_of<T>(keys);
    const T* Fk = chunk_.keys().F();
    // dV, written directly if its rows are consecutive and summed in their own type
    const int64_t first = chunk_.first_key();
    const bool gathered = !std::is_same_v<S, T> || list[first + keys - 1] - list[first] != keys - 1;
    Rows<T> rows{sums_, E};
    if constexpr (std::is_same_v<S, T>) {
      if (!gathered) rows = {dV[list[first]], dV.stride};
    }
    const bool eps = spec_.eps_comes_later();
    for (int64_t j = 0; j < keys && eps; ++j) std::copy_n(static_cast<const T*>(value_gradients_), E, rows[j]);
    product_(keys, E, F, Fk, {1, kTile}, R_, E, rows.data, rows.stride, eps);
    product_(keys, E, n, At_, {kTile, 1}, output_.G().data, E, rows.data, rows.stride, true);
    for (int64_t j = 0; j < keys && gathered; ++j) move_row(E, rows[j], dV[list[first + j]]);

    load_transposed<T>({dAt_, kTile}, keys, n, T(1), dA_);
    load_transposed<T>({chunk_.V(), E}, keys, E, T(1), Vt_);
    T* const dF = chunk_.keys().dF();
    product_(F, columns, E, R_, {E, 1}, Vt_, kTile, dF, kTile);
    product_(F, columns, n, chunk_.queries().F(), {kTile, 1}, dA_, kTile, dF, kTile, true);
    const T* dXt = chunk_.keys().backward(r_, ones_, dOmega_);
    store_transposed<S>(dXt, scales_, list, first, keys, sizes_.dim, scratch_, dK);
  }

  /// The part of dF_q from eps f_i (sum of visible values and their number): the same for all features.
  void fill_eps_gradient(const KernelState<T>& before, int64_t columns) {
    const int64_t F = sizes_.features;
    alignas(64) T sums[kTile] = {};
    weighted_column_sums<T>(Gt_, before.totals, sizes_.value_dim, columns, sums);
    for (int64_t c = 0; c < columns; ++c) sums[c] += output_.g()[c] * *before.count;
    for (int64_t j = 0; j < chunk_.key_count(); ++j) {
      for (int64_t c = 0; c < columns; ++c) sums[c] += dAt_[j * kTile + c];
    }
    for (T& sum : sums) sum *= static_cast<T>(spec_.map.eps);
    for (int64_t m = 0; m < F; ++m) std::copy_n(sums, kTile, chunk_.queries().dF() + m * kTile);
  }

  const KernelAttentionSpec& spec_;
  const KernelAttentionSizes& sizes_;
  Chunk<S>& chunk_;
  const TileProduct<S>& product_;
  T* dOmega_;
  OutputGradient<S> output_;
  Buffer<T> Gt_;  ///< (value_dim x kTile)
  Buffer<T> R_;
  Buffer<T> r_;
  Buffer<T> value_gradients_;  ///< gradient of the sum of values, through eps
  Buffer<T> At_;
  Buffer<T> dAt_;
  Buffer<T> dA_;
  Buffer<T> scaled_;
  Buffer<T> Vt_;
  Buffer<T> sums_;
  Buffer<S> scratch_;
  alignas(64) T scales_[kTile];
  alignas(64) T ones_[kTile];
};

}  // namespace

template <class S>
void attend_causal_backward(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, const Tensor& dO,
                            const Tensor& Q, const Tensor& K, const Tensor& V, const Frequencies& Omega,
                            const KeyLists& lists, const KernelAttentionResult& forward,
                            const KernelAttentionGradients& to) {
  using T = ComputeType<S>;
  const int64_t jobs = sizes.batch * sizes.heads;
  const int64_t omega_size = sizes.omega;
  const Buffer<T> omega_parts(to.dOmega.defined() ? jobs * omega_size : 1);
  const int64_t size = CausalBackward<S>::size(sizes);
  // Between slices, the factor is passed on too, after R, r and the gradient of the sum of values.
  const auto start = [&](T* to_start) { to_start[size] = 1; };
  const auto attend_head = [&](int64_t head, T* behind) {
    const int64_t b = head / sizes.heads;
    const int64_t h = head % sizes.heads;
    const KeyList seen{lists[b].positions, lists[b].before(sizes.queries)};
    const auto o = rows_of<const S>(forward.O, b, h);
    const auto go = rows_of<const S>(dO, b, h);
    const auto dq = rows_of<S>(to.dQ, b, h);
    const auto dk = rows_of<S>(to.dK, b, h);
    const auto dv = rows_of<S>(to.dV, b, h);
    T* dOmega = nullptr;
    if (to.dOmega.defined()) {
      dOmega = omega_parts + head * omega_size;
      std::fill_n(dOmega, omega_size, T(0));
    }
    Chunk<S> chunk(spec, sizes, Q, K, V, Omega, seen, b, h);
    Carried<S> carried(spec, sizes);
    CausalBackward<S> backward(spec, sizes, chunk, dOmega);
    struct Visited {
      int64_t begin;
      T shift, largest;  ///< before it
      T factor;          ///< of S and z on entry
      Buffer<T> state;   ///< before it, at its shift
    };
    std::vector<Visited> visited;
    T factor = 1;
    if (behind != nullptr) {
      backward.load(behind);
      factor = behind[size];
    }
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
    if (behind == nullptr) return;
    backward.save(behind);
    behind[size] = factor;
  };
  for_heads<T>(spec, jobs, SequenceSlice::Way::back, size + 1, start, attend_head);
  if (to.dOmega.defined()) reduce_omega<T>(omega_parts, sizes, 1, spec.scale, to.dOmega);
}

#define BOCHNER_INSTANTIATE(S)                                                                                    \
  template void attend_causal<S>(const KernelAttentionSpec&, const KernelAttentionSizes&, const Tensor&,          \
                                 const Tensor&, const Tensor&, const Frequencies&, const KeyLists&,               \
                                 const KernelAttentionResult&);                                                   \
  template void attend_causal_backward<S>(const KernelAttentionSpec&, const KernelAttentionSizes&, const Tensor&, \
                                          const Tensor&, const Tensor&, const Tensor&, const Frequencies&,        \
                                          const KeyLists&, const KernelAttentionResult&,                          \
                                          const KernelAttentionGradients&);
BOCHNER_INSTANTIATE(float)
BOCHNER_INSTANTIATE(double)
BOCHNER_INSTANTIATE(bfloat16)
#undef BOCHNER_INSTANTIATE

}  // namespace bochner::cpu
