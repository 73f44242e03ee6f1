// The operations of softmax attention on a tile of scores, which is held as S^T, keys x queries: the softmax runs down
// columns, S^T = K Q^T takes Q^T, transposed once for 64 queries, and O^T += V^T P^T and dQ^T += K^T dS^T take V and K
// as stored. Scores are in units of log 2.
#pragma once

#include <cmath>
#include <limits>

#include "engine/cpu/attention/attention_tile.h"
#include "engine/cpu/attention/written_tile.h"
#include "engine/cpu/parts/dropout_window.h"
#include "engine/cpu/parts/stored.h"

namespace bochner::cpu {

/// The real keys or values of one head as left factors of products, tile by tile: x (n x dim) and x^T (dim x n). They
/// are copied without gaps if there are enough queries for the copy to pay off.
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
/// In bf16, both are packed if they are requested.
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

/// P^T = 2^(S^T - shift) times the dropout factors, if there are any; sums += the column sums without these factors.
template <class S>
void exponentials(const ComputeType<S>* St, int64_t rows, int64_t columns, const ComputeType<S>* shift,
                  const ComputeType<S>* dropout, ComputeType<S>* sums, WrittenTile<S>& Pt) {
  using T = ComputeType<S>;
  using V = Vector<T>;
  struct State {
    V shift, sum;
  };
  const auto place = Pt.begin(Sides::right, rows, columns);
  const auto with = [&](const auto& factor) {
    const auto one = [&](State& state, int64_t at) {
      const V p = exp2_as<S>(load<V>(St + at) - state.shift);
      state.sum += p;
      return factor(p, at);
    };
    down_row_pairs<T>(
        rows, columns,
        [&](int64_t i) {
          return State{load<V>(shift + i), load<V>(sums + i)};
        },
        [&](State& state, int64_t row, int64_t i, auto two) {
          const V first = one(state, row * kTile + i);
          const V second = two ? one(state, (row + 1) * kTile + i) : V{};
          place.put(row, i, first, second, two);
        },
        [&](const State& state, int64_t i) { store(sums + i, state.sum); });
  };
  dropout == nullptr ? with([](const V& p, int64_t) { return p; })
                     : with([=](const V& p, int64_t at) { return p * load<V>(dropout + at); });
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
  /// For scores (batch, heads, queries, keys), where these keys begin at number `first_key`.
  DropoutTile(const Dropout& drop, int64_t queries, int64_t keys, int64_t first_key)
      : drop_(drop),
        queries_(queries),
        keys_(keys),
        first_key_(first_key),
        drawn_(drop.active() ? kTile * kTile : 1),
        factors_(drop.active() ? kTile * kTile : 1),
        window_(drop) {}

  bool active() const { return drop_.active(); }

  /// For the queries of head number `head` from `query` on, and the keys in the list from number `first` on.
  const T* draw(int64_t head, int64_t query, int64_t queries, const KeyList& list, int64_t first, int64_t count) {
    const int64_t begin = list[first];
    const int64_t span = list[first + count - 1] + 1 - begin;
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t place = (head * queries_ + query + i) * keys_ + first_key_ + begin;
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
  int64_t queries_, keys_, first_key_;
  Buffer<T> drawn_;
  Buffer<T> factors_;
  DropoutWindow<T> window_;
};

/// One tile of P^T and dS^T from S^T and dP^T:  P = 2^(S - lse),  dS = P (dP - delta); dP, and the P that is written,
/// are multiplied by the dropout factors, if there are any.
template <class S>
void score_gradients(const ComputeType<S>* St, const ComputeType<S>* dPt, int64_t rows, int64_t columns,
                     const ComputeType<S>* lse, const ComputeType<S>* delta, const ComputeType<S>* dropout,
                     WrittenTile<S>& P, WrittenTile<S>& dS) {
  using T = ComputeType<S>;
  using V = Vector<T>;
  struct State {
    V lse, delta;
  };
  struct Gradients {
    V P, dS;
  };
  const auto place_of_P = P.begin(Sides::left, rows, columns);
  const auto place_of_dS = dS.begin(Sides::both, rows, columns);
  const auto with = [&](const auto& kept) {
    const auto one = [&](const State& state, int64_t at) {
      // Scores are rounded, so a difference of huge ones could exceed 0.
      const V p = exp2_as<S>(min_of(V{}, load<V>(St + at) - state.lse));
      return Gradients{kept(p, at), p * (kept(load<V>(dPt + at), at) - state.delta)};
    };
    down_row_pairs<T>(
        rows, columns,
        [&](int64_t i) {
          return State{load<V>(lse + i), load<V>(delta + i)};
        },
        [&](const State& state, int64_t row, int64_t i, auto two) {
          const Gradients first = one(state, row * kTile + i);
          const Gradients second = two ? one(state, (row + 1) * kTile + i) : Gradients{};
          place_of_P.put(row, i, first.P, second.P, two);
          place_of_dS.put(row, i, first.dS, second.dS, two);
        },
        [](const State&, int64_t) {});
  };
  dropout == nullptr ? with([](const V& x, int64_t) { return x; })
                     : with([=](const V& x, int64_t at) { return x * load<V>(dropout + at); });
}

}  // namespace bochner::cpu
