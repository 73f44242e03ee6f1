// Bidirectional kernel attention. Features are held transposed, F = phi^T (features x tokens): S += F V, z += F 1 for
// keys, O^T = S^T F for queries, and likewise backward.
#include "engine/ops/attention/kernel_attention.h"

#include <cmath>

#include "engine/comm/sequence_slices.h"
#include "engine/cpu/attention/kernel_attention_parts.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

/// S and z of some keys of a head, relative to a shift that rises with their exponents.
template <class S>
class PartialState {
 public:
  using T = ComputeType<S>;
  static int64_t size(const KernelAttentionSizes& s) {
    return s.features * (s.value_dim + kLanes<T>)+round_up(s.value_dim + 3, 16);
  }
  PartialState(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, T* memory)
      : spec_(spec),
        sizes_(sizes),
        S_(memory),
        lanes_(S_ + sizes.features * sizes.value_dim),
        totals_(lanes_ + sizes.features * kLanes<T>),
        meta_(totals_ + sizes.value_dim),
        values_(sizes.value_dim, kTile) {}

  void clear() {
    std::fill_n(S_, size(sizes_), T(0));
    if (spec_.shifts()) shift() = largest() = kNothing<T>;
  }

  /// Adds keys [begin, end) of the list.
  void add(FeatureTile<S>& tile, Rows<const S> K, Rows<const S> V, const KeyList& list, int64_t begin, int64_t end,
           S* scratch) {
    const int64_t E = sizes_.value_dim;
    for (int64_t j = begin; j < end; j += kTile) {
      const int64_t count = std::min(kTile, end - j);
      tile.project(K, list, j, count);
      if (spec_.shifts()) follow(tile, count);
      tile.key_features(shift(), !spec_.eps_comes_later());
      const Rows<const S> v = gathered<S>(V, list, j, count, E, scratch);
      prefetch_next(v, count, E);
      const Right<S> values = values_.right(count, E, v.data, {v.stride, 1});
      multiply<S>(sizes_.features, E, count, tile.left(), values, S_, E, true);     // S += F V
      add_row_sums<T>(tile.F(), nullptr, sizes_.features, tile.columns(), lanes_);  // z += F 1
      if (!spec_.eps_comes_later()) continue;
      add_rows(count, E, v.data, v.stride, totals_);
      keys() += static_cast<T>(count);
    }
  }

  /// The largest exponent of some parts.
  static T top_of(const std::vector<PartialState>& parts) {
    T top = parts.front().largest();
    for (const PartialState& part : parts) top = std::max(top, part.largest());
    return top;
  }

  /// S, z and the shift of the whole head from its parts in order, each rescaled to the largest exponent of all; then
  /// eps is added.
  static void combine(const std::vector<PartialState>& parts, T top, const KernelState<T>& to) {
    const KernelAttentionSizes& sizes = parts.front().sizes_;
    const KernelAttentionSpec& spec = parts.front().spec_;
    *to.shift = top;
    const int64_t E = sizes.value_dim;
    std::fill_n(to.S, sizes.features * E, T(0));
    std::fill_n(to.z, sizes.features, T(0));
    for (const PartialState& part : parts) {
      const T factor = std::exp2(part.shift() - top);
      const T eps = spec.eps_comes_later() ? static_cast<T>(spec.map.eps) : T(0);
      for (int64_t m = 0; m < sizes.features; ++m) {
        for (int64_t d = 0; d < E; ++d) to.S[m * E + d] += math::fma(part.S_[m * E + d], factor, eps * part.totals_[d]);
        to.z[m] += lanes_total<T>(part.lanes_ + m * kLanes<T>) * factor + eps * part.keys();
      }
    }
  }

 private:
  T& shift() const { return meta_[0]; }
  T& largest() const { return meta_[1]; }
  T& keys() const { return meta_[2]; }

  /// Raises the shift if exponents of the tile exceed it by more than the slack, and rescales the sums.
  void follow(const FeatureTile<S>& tile, int64_t count) {
    alignas(64) T top[kTile];
    tile.key_exponents(top);
    for (int64_t i = 0; i < count; ++i) largest() = std::max(largest(), top[i]);
    if (!(largest() > shift() + kSlack)) return;
    const T factor = std::exp2(shift() - largest());
    for (int64_t i = 0; i < sizes_.features * (sizes_.value_dim + kLanes<T>); ++i) S_[i] *= factor;  // also the lanes
    shift() = largest();
  }

  const KernelAttentionSpec& spec_;
  const KernelAttentionSizes& sizes_;
  T* S_;
  T* lanes_;
  T* totals_;  ///< sum_j v_j, to be multiplied by eps
  T* meta_;
  Factor<S> values_;
};

/// Pieces of a head's tiles.
struct Pieces {
  Pieces(int64_t jobs, int64_t length) : tokens(length), count(pieces_per_head(jobs, tiles_of(length))) {}
  int64_t begin(int64_t piece) const { return std::min(tiles_of(tokens) * piece / count * kTile, tokens); }
  int64_t end(int64_t piece) const { return begin(piece + 1); }

  int64_t tokens, count;
};

template <class S>
void attend(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, const Tensor& Q, const Tensor& K,
            const Tensor& V, const Frequencies& Omega, const KeyLists& lists, const KernelAttentionResult& to) {
  using T = ComputeType<S>;
  const int64_t jobs = sizes.batch * sizes.heads;
  const int64_t E = sizes.value_dim;
  const int64_t F = sizes.features;
  const Pieces key_pieces(jobs, sizes.keys);
  const Pieces query_pieces(jobs, sizes.queries);
  const int64_t part_size = PartialState<S>::size(sizes);
  const Buffer<T> memory(jobs * key_pieces.count * part_size);
  parallel_for(jobs * key_pieces.count, 1, [&](int64_t index, int64_t) {
    const int64_t head = index / key_pieces.count;
    const int64_t b = head / sizes.heads;
    const int64_t h = head % sizes.heads;
    const int64_t piece = index % key_pieces.count;
    auto tile = feature_tile<S>(spec, sizes, Omega, h, Sides::left);
    const Buffer<S> scratch(kTile * E);
    PartialState<S> part(spec, sizes, memory + index * part_size);
    part.clear();
    part.add(tile, rows_of<const S>(K, b, h), rows_of<const S>(V, b, h), lists[b],
             std::min(key_pieces.begin(piece), lists[b].count), std::min(key_pieces.end(piece), lists[b].count),
             scratch);
  });
  const auto parts_of = [&](int64_t head) {
    std::vector<PartialState<S>> parts;
    for (int64_t p = 0; p < key_pieces.count; ++p) {
      parts.emplace_back(spec, sizes, memory + (head * key_pieces.count + p) * part_size);
    }
    return parts;
  };
  Tensor tops;  // of whole sequences, if these are slices
  if (spec.slice != nullptr && spec.shifts()) {
    const Tensor own = Tensor::empty({jobs}, dtype_of<T>);
    for (int64_t head = 0; head < jobs; ++head) own.data<T>()[head] = PartialState<S>::top_of(parts_of(head));
    tops = spec.slice->largest(own);
  }
  parallel_for(jobs, 1, [&](int64_t head, int64_t) {
    const std::vector<PartialState<S>> parts = parts_of(head);
    const T top = tops.defined() ? tops.data<T>()[head] : PartialState<S>::top_of(parts);
    PartialState<S>::combine(parts, top, state_of<T>(to.state, sizes, head, 0));
  });
  if (spec.slice != nullptr) {
    const Tensor S_and_z = to.state.view({jobs, to.state.size(3)}).slice(1, 0, F * (E + 1));
    S_and_z.copy_(spec.slice->sum(S_and_z));
  }
  parallel_for(jobs * query_pieces.count, 1, [&](int64_t index, int64_t) {
    const int64_t head = index / query_pieces.count;
    const int64_t b = head / sizes.heads;
    const int64_t h = head % sizes.heads;
    const int64_t end = query_pieces.end(index % query_pieces.count);
    const KeyList all{nullptr, sizes.queries};
    const auto q = rows_of<const S>(Q, b, h);
    const auto o = rows_of<S>(to.O, b, h);
    const auto state = state_of<T>(to.state, sizes, head, 0);
    auto tile = feature_tile<S>(spec, sizes, Omega, h, Sides::right);
    const Factor<S> S_factor(E, F);
    const Left<S> S_transposed = S_factor.left(E, F, state.S, {1, E});
    const Buffer<T> Ot(E * kTile);
    alignas(64) T factors[kTile];
    std::fill_n(factors, kTile, T(1));
    for (int64_t i = query_pieces.begin(index % query_pieces.count); i < end; i += kTile) {
      const int64_t count = std::min(kTile, end - i);
      tile.project(q, all, i, count);
      tile.query_features();
      multiply<S>(E, tile.columns(), F, S_transposed, tile.right(), Ot, kTile);  // O^T = S^T F
      if (spec.renormalise) {
        weighted_column_sums<T>(tile.F(), state.z, F, tile.columns(), factors);
        T* denominators = to.denominator.data<T>() + head * sizes.queries + i;
        for (int64_t c = 0; c < count; ++c) {
          denominators[c] = factors[c] + static_cast<T>(spec.denominator_eps);
          factors[c] = inverse_of_weights(denominators[c]);
        }
      }
      store_transposed<S>(Ot, factors, count, E, {o[i], o.stride});
    }
  });
}

/// N = F_q^T S, n = F_q^T z, O = N / n:  dS = F_q G,  dz = F_q g,  dF_q = S G^T + z g^T,
///                                       dV^T = dS^T F_k,          dF_k = dS V^T + dz 1^T
template <class S>
void attend_backward(const KernelAttentionSpec& spec, const KernelAttentionSizes& sizes, const Tensor& dO,
                     const Tensor& Q, const Tensor& K, const Tensor& V, const Frequencies& Omega, const KeyLists& lists,
                     const KernelAttentionResult& forward, const KernelAttentionGradients& to) {
  using T = ComputeType<S>;
  const int64_t jobs = sizes.batch * sizes.heads;
  const int64_t E = sizes.value_dim;
  const int64_t D = sizes.dim;
  const int64_t F = sizes.features;
  const int64_t omega_size = sizes.omega;
  const Pieces query_pieces(jobs, sizes.queries);
  const Pieces key_pieces(jobs, sizes.keys);
  const int64_t pieces = query_pieces.count + key_pieces.count;
  const int64_t part_size = F * (E + kLanes<T>);
  const Buffer<T> parts(jobs * query_pieces.count * part_size);
  Tensor dS_all = Tensor::empty({jobs, F * (E + 1)}, dtype_of<T>);
  const Buffer<T> omega_parts(to.dOmega.defined() ? jobs * pieces * omega_size : 1);
  const auto omega_part = [&](int64_t head, int64_t piece) -> T* {
    if (!to.dOmega.defined()) return nullptr;
    T* part = omega_parts + (head * pieces + piece) * omega_size;
    std::fill_n(part, omega_size, T(0));
    return part;
  };
  parallel_for(jobs * query_pieces.count, 1, [&](int64_t index, int64_t) {
    const int64_t head = index / query_pieces.count;
    const int64_t b = head / sizes.heads;
    const int64_t h = head % sizes.heads;
    const int64_t end = query_pieces.end(index % query_pieces.count);
    const KeyList all{nullptr, sizes.queries};
    const auto q = rows_of<const S>(Q, b, h);
    const auto o = rows_of<const S>(forward.O, b, h);
    const auto go = rows_of<const S>(dO, b, h);
    const auto dq = rows_of<S>(to.dQ, b, h);
    const auto state = state_of<T>(forward.state, sizes, head, 0);
    const T* denominators = spec.renormalise ? forward.denominator.data<T>() + head * sizes.queries : nullptr;
    T* dS = parts + index * part_size;
    T* dz_lanes = dS + F * E;
    std::fill_n(dS, part_size, T(0));
    T* dOmega = omega_part(head, index % query_pieces.count);
    auto tile = feature_tile<S>(spec, sizes, Omega, h, Sides::left);
    const Factor<S> S_factor(F, E), G_factor(E, kTile);
    const TransposedTokens<S> transposed(E);
    const Left<S> S_left = S_factor.left(F, E, state.S, {E, 1});
    OutputGradient<S> gradient(spec, E);
    alignas(64) T scales[kTile];
    std::fill_n(scales, kTile, static_cast<T>(spec.scale));
    for (int64_t i = query_pieces.begin(index % query_pieces.count); i < end; i += kTile) {
      const int64_t count = std::min(kTile, end - i);
      tile.project(q, all, i, count);
      tile.query_features();
      gradient.read({go[i], go.stride}, {o[i], o.stride}, denominators + (spec.renormalise ? i : 0), count);
      const Right<S> G = G_factor.right(count, E, gradient.G().data, {E, 1});
      multiply<S>(F, E, count, tile.left(), G, dS, E, true);                                       // dS += F G
      if (spec.renormalise) add_row_sums<T>(tile.F(), gradient.g(), F, tile.columns(), dz_lanes);  // dz += F g
      multiply<S>(F, tile.columns(), E, S_left, transposed.load(gradient.G(), count), tile.dF(),
                  kTile);  // dF = S G^T + z g^T
      const T* dXt = tile.backward(state.z, gradient.g(), dOmega);
      store_transposed<S>(dXt, scales, count, D, {dq[i], dq.stride});
    }
  });
  parallel_for(jobs, 1, [&](int64_t head, int64_t) {
    T* dS = dS_all.data<T>() + head * F * (E + 1);
    std::fill_n(dS, F * (E + 1), T(0));
    for (int64_t p = 0; p < query_pieces.count; ++p) {
      const T* part = parts + (head * query_pieces.count + p) * part_size;
      for (int64_t i = 0; i < F * E; ++i) dS[i] += part[i];
      for (int64_t m = 0; m < F; ++m) dS[F * E + m] += lanes_total<T>(part + F * E + m * kLanes<T>);
    }
  });
  if (spec.slice != nullptr) dS_all = spec.slice->sum(dS_all);
  parallel_for(jobs * key_pieces.count, 1, [&](int64_t index, int64_t) {
    const int64_t head = index / key_pieces.count;
    const int64_t b = head / sizes.heads;
    const int64_t h = head % sizes.heads;
    const int64_t piece = index % key_pieces.count;
    const KeyList list = lists[b];
    const int64_t end = std::min(key_pieces.end(piece), list.count);
    const auto k = rows_of<const S>(K, b, h);
    const auto v = rows_of<const S>(V, b, h);
    const auto dk = rows_of<S>(to.dK, b, h);
    const auto dv = rows_of<S>(to.dV, b, h);
    const T* dS = dS_all.data<T>() + head * F * (E + 1);
    T* dOmega = omega_part(head, query_pieces.count + piece);
    auto tile = feature_tile<S>(spec, sizes, Omega, h, Sides::right);
    const Factor<S> dS_factor(F, E), dSt_factor(E, F);
    const TransposedTokens<S> transposed(E);
    const Left<S> dS_left = dS_factor.left(F, E, dS, {E, 1});
    const Left<S> dS_transposed = dSt_factor.left(E, F, dS, {1, E});
    const Buffer<T> dVt(E * kTile);
    const Buffer<S> scratch(kTile * std::max(D, E));
    alignas(64) T scales[kTile];
    alignas(64) T ones[kTile];
    std::fill_n(scales, kTile, static_cast<T>(spec.scale));
    std::fill_n(ones, kTile, T(1));
    for (int64_t j = key_pieces.begin(piece); j < end; j += kTile) {
      const int64_t count = std::min(kTile, end - j);
      tile.project(k, list, j, count);
      tile.key_features(*state_of<T>(forward.state, sizes, head, 0).shift);
      const Rows<const S> values = gathered<S>(v, list, j, count, E, scratch);
      prefetch_next(values, count, E);
      const Right<S> Vt = transposed.load(values, count);
      multiply<S>(E, tile.columns(), F, dS_transposed, tile.right(), dVt, kTile);  // dV^T = dS^T F
      multiply<S>(F, tile.columns(), E, dS_left, Vt, tile.dF(), kTile);            // dF = dS V^T + dz 1^T
      store_transposed<S>(dVt, ones, list, j, count, E, scratch, dv);
      const T* dXt = tile.backward(dS + F * E, ones, dOmega);
      store_transposed<S>(dXt, scales, list, j, count, D, scratch, dk);
    }
    if (piece > 0) return;
    clear_unlisted(list, sizes.keys, D, dk);
    clear_unlisted(list, sizes.keys, E, dv);
  });
  if (to.dOmega.defined()) reduce_omega<T>(omega_parts, sizes, pieces, spec.scale, to.dOmega);
}

}  // namespace

template <class T>
void reduce_omega(const T* parts, const KernelAttentionSizes& sizes, int64_t pieces, double scale,
                  const Tensor& dOmega) {
  const int64_t size = sizes.omega;
  const bool shared = dOmega.size(0) == 1;
  const int64_t per_example = shared ? sizes.heads * pieces : pieces;
  parallel_for(dOmega.size(0) * size, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      T sum = 0;
      for (int64_t b = 0; b < sizes.batch; ++b) {
        const T* from = parts + (b * sizes.heads * pieces + at / size * per_example) * size + at % size;
        for (int64_t p = 0; p < per_example; ++p) sum += from[p * size];
      }
      dOmega.data<T>()[at] = sum * static_cast<T>(scale);
    }
  });
}
template void reduce_omega(const float*, const KernelAttentionSizes&, int64_t, double, const Tensor&);
template void reduce_omega(const double*, const KernelAttentionSizes&, int64_t, double, const Tensor&);

void kernel_attention(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                      const Frequencies& Omega, const Tensor& keys, const KernelAttentionResult& to) {
  const KernelAttentionSizes sizes(spec, Q, K, V, Omega);
  const KeyLists lists(keys, sizes.batch, sizes.keys);
  visit_stored(Q.dtype(), "kernel_attention", [&]<class S>(TypeTag<S>) {
    if (spec.causal) {
      attend_causal<S>(spec, sizes, Q, K, V, Omega, lists, to);
    } else {
      attend<S>(spec, sizes, Q, K, V, Omega, lists, to);
    }
  });
}

void kernel_attention_backward(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q, const Tensor& K,
                               const Tensor& V, const Frequencies& Omega, const Tensor& keys,
                               const KernelAttentionResult& forward, const KernelAttentionGradients& to) {
  const KernelAttentionSizes sizes(spec, Q, K, V, Omega);
  const KeyLists lists(keys, sizes.batch, sizes.keys);
  visit_stored(Q.dtype(), "kernel_attention", [&]<class S>(TypeTag<S>) {
    if (spec.causal) {
      attend_causal_backward<S>(spec, sizes, dO, Q, K, V, Omega, lists, forward, to);
    } else {
      attend_backward<S>(spec, sizes, dO, Q, K, V, Omega, lists, forward, to);
    }
  });
}

}  // namespace bochner::cpu
