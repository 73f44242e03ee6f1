// Scores are held as S^T, keys x queries: the softmax runs down columns, S^T = K Q^T takes Q^T, transposed once for 64
// queries, and O^T += V^T P^T and dQ^T += K^T dS^T take V and K as they are stored. Scores are in units of log 2.
#include "engine/ops/softmax_attention.h"

#include <cmath>
#include <limits>

#include "engine/cpu/attention/attention_tile.h"
#include "engine/cpu/bf16/factors.h"
#include "engine/cpu/parts/dropout_window.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

/// The running maximum before any key is seen; finite, so that subtracting it from a hidden score of -inf gives -inf.
template <class T>
constexpr T kNothing = std::numeric_limits<T>::lowest() / 4;

/// How far scores may exceed the shift in use, in powers of two, before sums are rescaled: a factor of 2^8 harms no
/// sum, and most tiles then need no rescaling.
constexpr int kSlack = 8;

struct Sizes {
  int64_t heads, queries, keys, dim, value_dim;
};

/// The real keys or values of one head as left factors of products, tile by tile: x (n x dim) and x^T (dim x n). They
/// are copied without gaps if there are enough queries to make the copy pay.
template <class S>
class TileRows {
 public:
  TileRows(Rows<const S> rows, const KeyList& list, int64_t count, int64_t dim, bool copy, bool, bool)
      : copy_(copy || list.positions != nullptr ? count * dim : 1), rows_(rows) {
    if (!copy && list.positions == nullptr) return;
    gather_rows<S>(rows, list, 0, count, dim, copy_);
    rows_ = {copy_, dim};
  }
  Left<S> plain(int64_t first) const { return {rows_[first], {rows_.stride, 1}}; }
  Left<S> transposed(int64_t first) const { return {rows_[first], {1, rows_.stride}}; }

 private:
  Buffer<S> copy_;
  Rows<const S> rows_;
};
/// In bf16 both are packed, if they are asked for.
template <>
class TileRows<bfloat16> {
 public:
  TileRows(Rows<const bfloat16> rows, const KeyList& list, int64_t count, int64_t dim, bool, bool plain,
           bool transposed)
      : size_(packed_size(kTile, dim)),
        turned_size_(packed_size(dim, kTile)),
        plain_(plain ? tiles_of(count) * size_ : 1),
        transposed_(transposed ? tiles_of(count) * turned_size_ : 1) {
    const Buffer<bfloat16> scratch(kTile * dim);
    for (int64_t first = 0; first < count; first += kTile) {
      const int64_t n = std::min(kTile, count - first);
      const auto x = gathered<bfloat16>(rows, list, first, n, dim, scratch);
      if (plain) pack_left<bfloat16>(n, dim, x.data, {x.stride, 1}, plain_ + first / kTile * size_);
      if (transposed) pack_left<bfloat16>(dim, n, x.data, {1, x.stride}, transposed_ + first / kTile * turned_size_);
    }
  }
  Left<bfloat16> plain(int64_t first) const { return {plain_ + first / kTile * size_}; }
  Left<bfloat16> transposed(int64_t first) const { return {transposed_ + first / kTile * turned_size_}; }

 private:
  int64_t size_, turned_size_;
  Buffer<bfloat16> plain_, transposed_;
};

/// Hides later keys: S^T(j, i) = -inf where key j comes after query `first_query` + i.
template <class T>
void hide_future(const KeyList& list, int64_t first_key, int64_t count, int64_t first_query, int64_t columns, T* St) {
  for (int64_t j = 0; j < count; ++j) {
    const int64_t hidden = std::clamp<int64_t>(list[first_key + j] - first_query, 0, columns);
    std::fill_n(St + j * kTile, hidden, -std::numeric_limits<T>::infinity());
  }
}

/// P^T = 2^(S^T - shift), in place; sums += its column sums.
template <class T>
void exponentials(T* St, int64_t rows, int64_t columns, const T* shift, T* sums) {
  struct State {
    Vector<T> shift, sum;
  };
  down_columns<T>(
      rows, columns,
      [&](int64_t i) {
        return State{load<Vector<T>>(shift + i), load<Vector<T>>(sums + i)};
      },
      [&](State& state, int64_t, int64_t at) {
        const auto p = exp2_of(load<Vector<T>>(St + at) - state.shift);
        state.sum += p;
        store(St + at, p);
      },
      [&](const State& state, int64_t i) { store(sums + i, state.sum); });
}

/// x (rows x kTile) times a factor for each column.
template <class T>
void scale_columns(T* x, int64_t rows, int64_t columns, const T* factors) {
  down_columns<T>(
      rows, columns, [&](int64_t i) { return load<Vector<T>>(factors + i); },
      [&](const Vector<T>& factor, int64_t, int64_t at) { store(x + at, load<Vector<T>>(x + at) * factor); },
      [](const Vector<T>&, int64_t) {});
}

/// Raises the shift of columns whose scores exceed it by more than the slack, and rescales their sums.
template <class T>
void follow_maxima(const T* top, int64_t columns, int64_t value_dim, T* shift, T* sums, T* Ot) {
  bool grows = false;
  for (int64_t i = 0; i < columns; ++i) grows |= top[i] > shift[i] + kSlack;
  if (!grows) return;
  alignas(64) T factors[kTile];
  for (int64_t i = 0; i < columns; ++i) {
    const T next = top[i] > shift[i] + kSlack ? top[i] : shift[i];
    factors[i] = std::exp2(shift[i] - next);
    sums[i] *= factors[i];
    shift[i] = next;
  }
  scale_columns(Ot, value_dim, columns, factors);
}

/// The dropout factors of a tile of P, as keys x queries.
template <class T>
class DropoutTile {
 public:
  DropoutTile(const Dropout& drop, const Sizes& sizes)
      : drop_(drop),
        sizes_(sizes),
        drawn_(drop.active() ? kTile * kTile : 1),
        factors_(drop.active() ? kTile * kTile : 1),
        window_(drop) {}

  bool active() const { return drop_.active(); }

  /// For the queries of head number `head` from `query` on, and the keys of the list from number `first` on.
  const T* draw(int64_t head, int64_t query, int64_t queries, const KeyList& list, int64_t first, int64_t count) {
    const int64_t begin = list[first];
    const int64_t span = list[first + count - 1] + 1 - begin;
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t place = (head * sizes_.queries + query + i) * sizes_.keys + begin;
      T* to = drawn_ + i * kTile;
      int64_t j = 0;
      window_.for_each_run(place, span, [&](int64_t run, const auto& factor, int64_t n) {
        if (span == count) {  // no key is missing
          for (int64_t k = 0; k < n; ++k) to[run + k] = factor(k);
          return;
        }
        for (; j < count && list[first + j] - begin < run + n; ++j) to[j] = factor(list[first + j] - begin - run);
      });
    }
    load_transposed<T>({drawn_, kTile}, queries, count, T(1), factors_);
    return factors_;
  }

 private:
  const Dropout& drop_;
  Sizes sizes_;
  Buffer<T> drawn_;
  Buffer<T> factors_;
  DropoutWindow<T> window_;
};

template <class T>
void scale_by(T* x, const T* factors, int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < rows; ++j) {
    for (int64_t i = 0; i < columns; ++i) x[j * kTile + i] *= factors[j * kTile + i];
  }
}

/// One tile of P^T and dS^T from S^T and dP^T, in place:  P = 2^(S - lse),  dS = P (dP - delta).
template <class T>
void score_gradients(T* St, T* dPt, int64_t rows, int64_t columns, const T* lse, const T* delta, const T* dropout) {
  using V = Vector<T>;
  struct State {
    V lse, delta;
  };
  const auto begin = [&](int64_t i) { return State{load<V>(lse + i), load<V>(delta + i)}; };
  const auto end = [](const State&, int64_t) {};
  // Scores are rounded, so a difference of huge ones could exceed 0.
  const auto probability = [&](const State& state, int64_t at) {
    return exp2_of(min_of(V{}, load<V>(St + at) - state.lse));
  };
  if (dropout == nullptr) {
    down_columns<T>(
        rows, columns, begin,
        [&](const State& state, int64_t, int64_t at) {
          const V p = probability(state, at);
          store(dPt + at, p * (load<V>(dPt + at) - state.delta));
          store(St + at, p);
        },
        end);
  } else {
    down_columns<T>(
        rows, columns, begin,
        [&](const State& state, int64_t, int64_t at) {
          const V p = probability(state, at);
          const V kept = load<V>(dropout + at);
          store(dPt + at, p * (kept * load<V>(dPt + at) - state.delta));
          store(St + at, kept * p);
        },
        end);
  }
}

template <class S>
void forward(const Tensor& Q, const Tensor& K, const Tensor& V, const KeyLists& lists,
             const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp) {
  using T = ComputeType<S>;
  const Sizes sizes{Q.size(1), Q.size(2), K.size(2), Q.size(3), V.size(3)};
  const int64_t heads = sizes.heads;
  const int64_t queries = sizes.queries;
  const int64_t dim = sizes.dim;
  const int64_t value_dim = sizes.value_dim;
  const int64_t tiles = tiles_of(queries);
  const int64_t pieces = pieces_per_head(Q.size(0) * heads, tiles);
  parallel_for(Q.size(0) * heads * pieces, 1, [&](int64_t piece, int64_t) {
    const int64_t head = piece / pieces;
    const int64_t b = head / heads;
    const int64_t h = head % heads;
    const int64_t begin = tiles * (piece % pieces) / pieces * kTile;
    const int64_t end = std::min(tiles * (piece % pieces + 1) / pieces * kTile, queries);
    const KeyList list = lists[b];
    const int64_t reachable = options.causal ? list.before(end) : list.count;
    const auto q = rows_of<const S>(Q, b, h);
    const auto o = rows_of<S>(O, b, h);
    T* lse = logsumexp.data<T>() + head * queries;
    const bool pays = end - begin > kTile;
    const TileRows<S> k(rows_of<const S>(K, b, h), list, reachable, dim, pays, true, false);
    const TileRows<S> v(rows_of<const S>(V, b, h), list, reachable, value_dim, pays, false, true);
    const Factor<S> Qt_factor(kTile, dim), Pt_factor(kTile, kTile);
    const Buffer<T> Qt(dim * kTile);
    const Buffer<T> St(kTile * kTile);
    const Buffer<T> Ot(value_dim * kTile);
    DropoutTile<T> dropout(options.dropout, sizes);
    alignas(64) T top[kTile];
    alignas(64) T shift[kTile];
    alignas(64) T sums[kTile];
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t count = std::min(kTile, end - i);
      const int64_t columns = columns_of<T>(count);
      load_transposed<S>({q[i], q.stride}, count, dim, static_cast<T>(options.scale * kLog2E), Qt);
      const Right<S> Qt_right = Qt_factor.right(dim, columns, static_cast<const T*>(Qt), {kTile, 1});
      std::fill_n(static_cast<T*>(Ot), value_dim * kTile, T(0));
      std::fill_n(shift, kTile, kNothing<T>);
      std::fill_n(sums, kTile, T(0));
      const int64_t visible = options.causal ? list.before(i + count) : list.count;
      for (int64_t j = 0; j < visible; j += kTile) {
        const int64_t n = std::min(kTile, visible - j);
        multiply<S>(n, columns, dim, k.plain(j), Qt_right, St, kTile);  // S^T = K Q^T
        if (options.causal && list[j + n - 1] > i) hide_future<T>(list, j, n, i, columns, St);
        column_maxima<T>(
            St, n, columns, [](Vector<T> s) { return s; }, top);
        follow_maxima<T>(top, columns, value_dim, shift, sums, Ot);
        exponentials<T>(St, n, columns, shift, sums);  // P^T
        if (dropout.active()) scale_by<T>(St, dropout.draw(head, i, count, list, j, n), n, columns);
        const Right<S> Pt = Pt_factor.right(n, columns, static_cast<const T*>(St), {kTile, 1});
        multiply<S>(value_dim, columns, n, v.transposed(j), Pt, Ot, kTile, true);  // O^T += V^T P^T
      }
      for (int64_t c = 0; c < columns; ++c) {
        if (c < count) lse[i + c] = static_cast<T>((shift[c] + std::log2(sums[c])) * kLn2);
        sums[c] = sums[c] > 0 ? 1 / sums[c] : T(0);
      }
      store_transposed<S>(Ot, sums, count, value_dim, {o[i], o.stride});
    }
  });
}

template <class S>
void backward(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V, const KeyLists& lists,
              const SoftmaxAttended& attended, const SoftmaxAttentionOptions& options,
              const AttentionGradients& grads) {
  using T = ComputeType<S>;
  const Sizes sizes{Q.size(1), Q.size(2), K.size(2), Q.size(3), V.size(3)};
  const int64_t heads = sizes.heads;
  const int64_t queries = sizes.queries;
  const int64_t keys = sizes.keys;
  const int64_t dim = sizes.dim;
  const int64_t value_dim = sizes.value_dim;
  const int64_t jobs = Q.size(0) * heads;
  const int64_t tiles = tiles_of(queries);
  // Each piece of the queries has a dK and a dV of its own, so more pieces take more memory.
  const int64_t pieces = std::min<int64_t>(pieces_per_head(jobs, tiles), 8);
  const int64_t sum_size = keys * (dim + value_dim);
  const Buffer<T> partial(pieces > 1 ? jobs * pieces * sum_size : 1);
  const auto finish = [&](int64_t head, T* sums, int64_t count) {
    const int64_t b = head / heads;
    const int64_t h = head % heads;
    const auto dk = rows_of<S>(grads.dK, b, h);
    const auto dv = rows_of<S>(grads.dV, b, h);
    const KeyList list = lists[b];
    for (int64_t j = 0; j < list.count; ++j) {
      T* const to_k = sums + j * dim;
      T* const to_v = sums + keys * dim + j * value_dim;
      for (int64_t p = 1; p < count; ++p) {
        for (int64_t d = 0; d < dim; ++d) to_k[d] += sums[p * sum_size + j * dim + d];
        for (int64_t d = 0; d < value_dim; ++d) to_v[d] += sums[p * sum_size + keys * dim + j * value_dim + d];
      }
      for (int64_t d = 0; d < dim; ++d) to_k[d] *= static_cast<T>(options.scale);
      move_row(dim, to_k, dk[list[j]]);
      move_row(value_dim, to_v, dv[list[j]]);
    }
    clear_unlisted(list, keys, dim, dk);
    clear_unlisted(list, keys, value_dim, dv);
  };
  parallel_for(jobs * pieces, 1, [&](int64_t piece, int64_t) {
    const int64_t head = piece / pieces;
    const int64_t b = head / heads;
    const int64_t h = head % heads;
    const int64_t begin = tiles * (piece % pieces) / pieces * kTile;
    const int64_t end = std::min(tiles * (piece % pieces + 1) / pieces * kTile, queries);
    const KeyList list = lists[b];
    const int64_t reachable = options.causal ? list.before(end) : list.count;
    const auto q = rows_of<const S>(Q, b, h);
    const auto o = rows_of<const S>(attended.O, b, h);
    const auto go = rows_of<const S>(dO, b, h);
    const auto dq = rows_of<S>(grads.dQ, b, h);
    const T* lse = attended.logsumexp.data<T>() + head * queries;
    const bool pays = end - begin > kTile;
    const TileRows<S> k(rows_of<const S>(K, b, h), list, reachable, dim, pays, true, true);
    const TileRows<S> v(rows_of<const S>(V, b, h), list, reachable, value_dim, pays, true, false);
    const Factor<S> Qt_factor(kTile, dim), Q_factor(dim, kTile), dOt_factor(kTile, value_dim),
        dO_factor(value_dim, kTile);
    const Factor<S> P_factor(kTile, kTile), dS_factor(kTile, kTile), dSt_factor(kTile, kTile);
    const Buffer<T> own(pieces > 1 ? 1 : sum_size);
    T* dK = pieces > 1 ? partial + piece * sum_size : static_cast<T*>(own);
    T* dV = dK + keys * dim;
    std::fill_n(dK, sum_size, T(0));
    const int64_t widest = std::max(dim, value_dim);
    const Buffer<T> Qt(dim * kTile);
    const Buffer<T> Qc(kTile * dim);
    const Buffer<T> dOt(value_dim * kTile);
    const Buffer<T> dOc(kTile * value_dim);
    const Buffer<T> Ot(widest * kTile);
    const Buffer<T> St(kTile * kTile);
    const Buffer<T> dPt(kTile * kTile);
    const T* dQt = Ot;  // O is not needed once delta is known
    DropoutTile<T> dropout(options.dropout, sizes);
    alignas(64) T shift[kTile];
    alignas(64) T delta[kTile];
    alignas(64) T scales[kTile];
    std::fill_n(scales, kTile, static_cast<T>(options.scale));
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t count = std::min(kTile, end - i);
      const int64_t columns = columns_of<T>(count);
      const KeyList all{nullptr, queries};
      load_transposed<S>({q[i], q.stride}, count, dim, static_cast<T>(options.scale * kLog2E), Qt);
      load_transposed<S>({go[i], go.stride}, count, value_dim, T(1), dOt);
      load_transposed<S>({o[i], o.stride}, count, value_dim, T(1), Ot);
      gather_rows<S>(q, all, i, count, dim, Qc);
      gather_rows<S>(go, all, i, count, value_dim, dOc);
      const Right<S> Qt_right = Qt_factor.right(dim, columns, static_cast<const T*>(Qt), {kTile, 1});
      const Right<S> Q_right = Q_factor.right(count, dim, static_cast<const T*>(Qc), {dim, 1});
      const Right<S> dOt_right = dOt_factor.right(value_dim, columns, static_cast<const T*>(dOt), {kTile, 1});
      const Right<S> dO_right = dO_factor.right(count, value_dim, static_cast<const T*>(dOc), {value_dim, 1});
      column_products<T>(dOt, Ot, value_dim, columns, delta);
      for (int64_t c = 0; c < columns; ++c) {
        const bool sees = c < count && lse[i + c] > -std::numeric_limits<T>::infinity();
        shift[c] = sees ? lse[i + c] * static_cast<T>(kLog2E) : std::numeric_limits<T>::max();
      }
      std::fill_n(static_cast<T*>(Ot), widest * kTile, T(0));
      const int64_t visible = options.causal ? list.before(i + count) : list.count;
      for (int64_t j = 0; j < visible; j += kTile) {
        const int64_t n = std::min(kTile, visible - j);
        multiply<S>(n, columns, dim, k.plain(j), Qt_right, St, kTile);          // S^T = K Q^T
        multiply<S>(n, columns, value_dim, v.plain(j), dOt_right, dPt, kTile);  // dP^T = V dO^T
        if (options.causal && list[j + n - 1] > i) hide_future<T>(list, j, n, i, columns, St);
        const T* factors = dropout.active() ? dropout.draw(head, i, count, list, j, n) : nullptr;
        score_gradients<T>(St, dPt, n, columns, shift, delta, factors);  // P^T and dS^T
        T* dv = dV + j * value_dim;
        T* dk = dK + j * dim;
        const T* const P = St;
        const T* const dS = dPt;
        multiply<S>(n, value_dim, count, P_factor.left(n, count, P, {kTile, 1}), dO_right, dv, value_dim,
                    true);                                                                             // dV += P^T dO
        multiply<S>(n, dim, count, dS_factor.left(n, count, dS, {kTile, 1}), Q_right, dk, dim, true);  // dK += dS^T Q
        multiply<S>(dim, columns, n, k.transposed(j), dSt_factor.right(n, columns, dS, {kTile, 1}), Ot, kTile,
                    true);  // dQ^T += K^T dS^T
      }
      store_transposed<S>(dQt, scales, count, dim, {dq[i], dq.stride});
    }
    if (pieces == 1) finish(head, own, 1);
  });
  if (pieces == 1) return;
  parallel_for(jobs, 1, [&](int64_t head, int64_t) { finish(head, partial + head * pieces * sum_size, pieces); });
}

}  // namespace

void softmax_attention(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                       const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp) {
  const KeyLists lists(key_mask, K.size(0), K.size(2));
  visit_stored(Q.dtype(), "softmax_attention",
               [&]<class S>(TypeTag<S>) { forward<S>(Q, K, V, lists, options, O, logsumexp); });
}

void softmax_attention_backward(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                const Tensor& key_mask, const SoftmaxAttended& attended,
                                const SoftmaxAttentionOptions& options, const AttentionGradients& grads) {
  const KeyLists lists(key_mask, K.size(0), K.size(2));
  visit_stored(Q.dtype(), "softmax_attention",
               [&]<class S>(TypeTag<S>) { backward<S>(dO, Q, K, V, lists, attended, options, grads); });
}

}  // namespace bochner::cpu
