// Scores are held as S^T, keys x queries: the softmax runs down columns, S^T = K Q^T takes Q^T, transposed once for 64
// queries, and O^T += V^T P^T and dQ^T += K^T dS^T take V and K as they are stored. Scores are in units of log 2.
#include "engine/ops/softmax_attention.h"

#include <cmath>
#include <limits>

#include "engine/cpu/attention/attention_tile.h"
#include "engine/cpu/parts/dropout_window.h"
#include "engine/cpu/parts/tile_product.h"
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

/// The real keys and values of one head without gaps, copied if there are enough queries to make the copy pay.
template <class T>
class PackedRows {
 public:
  PackedRows(Rows<const T> rows, const KeyList& list, int64_t count, int64_t dim, bool copy)
      : copy_(copy || list.positions != nullptr ? count * dim : 1), rows_(rows) {
    if (!copy && list.positions == nullptr) return;
    gather_rows<T>(rows, list, 0, count, dim, copy_);
    rows_ = {copy_, dim};
  }
  const T* operator[](int64_t i) const { return rows_[i]; }
  TileStrides strides() const { return {rows_.stride, 1}; }
  TileStrides transposed() const { return {1, rows_.stride}; }

 private:
  Buffer<T> copy_;
  Rows<const T> rows_;
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
void multiply(T* x, const T* factors, int64_t rows, int64_t columns) {
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

template <class T>
void forward(const Tensor& Q, const Tensor& K, const Tensor& V, const KeyLists& lists,
             const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp) {
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
    const auto q = rows_of<const T>(Q, b, h);
    const auto o = rows_of<T>(O, b, h);
    T* lse = logsumexp.data<T>() + head * queries;
    const bool pays = end - begin > kTile;
    const PackedRows<T> k(rows_of<const T>(K, b, h), list, reachable, dim, pays);
    const PackedRows<T> v(rows_of<const T>(V, b, h), list, reachable, value_dim, pays);
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
      load_transposed<T>({q[i], q.stride}, count, dim, static_cast<T>(options.scale * kLog2E), Qt);
      std::fill_n(static_cast<T*>(Ot), value_dim * kTile, T(0));
      std::fill_n(shift, kTile, kNothing<T>);
      std::fill_n(sums, kTile, T(0));
      const int64_t visible = options.causal ? list.before(i + count) : list.count;
      for (int64_t j = 0; j < visible; j += kTile) {
        const int64_t n = std::min(kTile, visible - j);
        tile_product<T>(n, columns, dim, k[j], k.strides(), Qt, kTile, St, kTile);  // S^T = K Q^T
        if (options.causal && list[j + n - 1] > i) hide_future<T>(list, j, n, i, columns, St);
        column_maxima<T>(
            St, n, columns, [](Vector<T> s) { return s; }, top);
        follow_maxima<T>(top, columns, value_dim, shift, sums, Ot);
        exponentials<T>(St, n, columns, shift, sums);  // P^T
        if (dropout.active()) multiply<T>(St, dropout.draw(head, i, count, list, j, n), n, columns);
        tile_product<T>(value_dim, columns, n, v[j], v.transposed(), St, kTile, Ot, kTile, true);  // O^T += V^T P^T
      }
      for (int64_t c = 0; c < columns; ++c) {
        if (c < count) lse[i + c] = static_cast<T>((shift[c] + std::log2(sums[c])) * kLn2);
        sums[c] = sums[c] > 0 ? 1 / sums[c] : T(0);
      }
      store_transposed<T>(Ot, sums, count, value_dim, {o[i], o.stride});
    }
  });
}

template <class T>
void backward(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V, const KeyLists& lists,
              const SoftmaxAttended& attended, const SoftmaxAttentionOptions& options,
              const AttentionGradients& grads) {
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
  const auto finish = [&](int64_t head, const T* sums, int64_t count) {
    const int64_t b = head / heads;
    const int64_t h = head % heads;
    const auto dk = rows_of<T>(grads.dK, b, h);
    const auto dv = rows_of<T>(grads.dV, b, h);
    const KeyList list = lists[b];
    for (int64_t j = 0; j < list.count; ++j) {
      T* to_k = dk[list[j]];
      T* to_v = dv[list[j]];
      std::copy_n(sums + j * dim, dim, to_k);
      std::copy_n(sums + keys * dim + j * value_dim, value_dim, to_v);
      for (int64_t p = 1; p < count; ++p) {
        for (int64_t d = 0; d < dim; ++d) to_k[d] += sums[p * sum_size + j * dim + d];
        for (int64_t d = 0; d < value_dim; ++d) to_v[d] += sums[p * sum_size + keys * dim + j * value_dim + d];
      }
      for (int64_t d = 0; d < dim; ++d) to_k[d] *= static_cast<T>(options.scale);
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
    const auto q = rows_of<const T>(Q, b, h);
    const auto o = rows_of<const T>(attended.O, b, h);
    const auto go = rows_of<const T>(dO, b, h);
    const auto dq = rows_of<T>(grads.dQ, b, h);
    const T* lse = attended.logsumexp.data<T>() + head * queries;
    const bool pays = end - begin > kTile;
    const PackedRows<T> k(rows_of<const T>(K, b, h), list, reachable, dim, pays);
    const PackedRows<T> v(rows_of<const T>(V, b, h), list, reachable, value_dim, pays);
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
      load_transposed<T>({q[i], q.stride}, count, dim, static_cast<T>(options.scale * kLog2E), Qt);
      load_transposed<T>({go[i], go.stride}, count, value_dim, T(1), dOt);
      load_transposed<T>({o[i], o.stride}, count, value_dim, T(1), Ot);
      gather_rows<T>(q, all, i, count, dim, Qc);
      gather_rows<T>(go, all, i, count, value_dim, dOc);
      column_products<T>(dOt, Ot, value_dim, columns, delta);
      for (int64_t c = 0; c < columns; ++c) {
        const bool sees = c < count && lse[i + c] > -std::numeric_limits<T>::infinity();
        shift[c] = sees ? lse[i + c] * static_cast<T>(kLog2E) : std::numeric_limits<T>::max();
      }
      std::fill_n(static_cast<T*>(Ot), widest * kTile, T(0));
      const int64_t visible = options.causal ? list.before(i + count) : list.count;
      for (int64_t j = 0; j < visible; j += kTile) {
        const int64_t n = std::min(kTile, visible - j);
        tile_product<T>(n, columns, dim, k[j], k.strides(), Qt, kTile, St, kTile);          // S^T = K Q^T
        tile_product<T>(n, columns, value_dim, v[j], v.strides(), dOt, kTile, dPt, kTile);  // dP^T = V dO^T
        if (options.causal && list[j + n - 1] > i) hide_future<T>(list, j, n, i, columns, St);
        const T* factors = dropout.active() ? dropout.draw(head, i, count, list, j, n) : nullptr;
        score_gradients<T>(St, dPt, n, columns, shift, delta, factors);  // P^T and dS^T
        T* dv = dV + j * value_dim;
        T* dk = dK + j * dim;
        tile_product<T>(n, value_dim, count, St, {kTile, 1}, dOc, value_dim, dv, value_dim, true);  // dV += P^T dO
        tile_product<T>(n, dim, count, dPt, {kTile, 1}, Qc, dim, dk, dim, true);                    // dK += dS^T Q
        tile_product<T>(dim, columns, n, k[j], k.transposed(), dPt, kTile, Ot, kTile, true);        // dQ^T += K^T dS^T
      }
      store_transposed<T>(dQt, scales, count, dim, {dq[i], dq.stride});
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
  visit_floating(Q.dtype(), "softmax_attention",
                 [&]<class T>(TypeTag<T>) { forward<T>(Q, K, V, lists, options, O, logsumexp); });
}

void softmax_attention_backward(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                const Tensor& key_mask, const SoftmaxAttended& attended,
                                const SoftmaxAttentionOptions& options, const AttentionGradients& grads) {
  const KeyLists lists(key_mask, K.size(0), K.size(2));
  visit_floating(Q.dtype(), "softmax_attention",
                 [&]<class T>(TypeTag<T>) { backward<T>(dO, Q, K, V, lists, attended, options, grads); });
}

}  // namespace bochner::cpu
