// Common to the attention kernels: tiles of 64 tokens, kept in the L1 and L2 caches.
//
// A tile is transposed, features x tokens, with tokens in the lanes of vectors. So sums and maxima over features run
// down the columns, a factor per token is a vector, every product has 64 columns whatever the head's size, and A^T is
// free (engine/cpu/parts/tile_product.h).
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "engine/cpu/parts/lanes.h"
#include "engine/cpu/parts/transpose.h"
#include "engine/cpu/parts/vector.h"
#include "engine/storage.h"
#include "engine/tensor.h"

namespace bochner::cpu {

/// The tokens in a tile, and the row stride of every transposed tile.
inline constexpr int64_t kTile = 64;

inline constexpr double kLog2E = 1.44269504088896340736;
inline constexpr double kLn2 = 0.69314718055994530942;

/// The running maximum of scores or exponents before any key is seen; finite, so that subtracting it from a hidden
/// score of -inf gives -inf.
template <class T>
inline constexpr T kNothing = std::numeric_limits<T>::lowest() / 4;

/// How far scores or exponents may exceed the current shift, in powers of two, before sums are rescaled: a factor of
/// 2^8 harms no sum, and most tiles then need no rescaling.
inline constexpr int kSlack = 8;

/// Scratch memory from the caching allocator, which requests nothing from the system in steady state.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t count)
      : storage_(std::make_unique<Storage>(Device::cpu(), static_cast<size_t>(count) * sizeof(T))) {}
  operator T*() const { return reinterpret_cast<T*>(storage_->data()); }  // NOLINT: a buffer is its first element

 private:
  std::unique_ptr<Storage> storage_;
};

/// Tokens of one (batch, head): row i begins at data + i * stride and is contiguous.
template <class T>
struct Rows {
  T* data;
  int64_t stride;

  T* operator[](int64_t row) const { return data + row * stride; }
};

/// The tokens of head h of example b, of a tensor (batch, heads, length, dim).
template <class T>
Rows<T> rows_of(const Tensor& x, int64_t b, int64_t h) {
  return {x.data<std::remove_const_t<T>>() + b * x.strides()[0] + h * x.strides()[1], x.strides()[2]};
}

/// Which keys of an example are real, as ascending positions; without a mask, all of them.
struct KeyList {
  const int32_t* positions;  ///< null: position i is i
  int64_t count;

  int64_t operator[](int64_t i) const { return positions == nullptr ? i : positions[i]; }
  /// The number of real keys before `position`.
  int64_t before(int64_t position) const {
    if (positions == nullptr) return std::clamp<int64_t>(position, 0, count);
    return std::lower_bound(positions, positions + count, static_cast<int32_t>(position)) - positions;
  }
};

/// The key lists of a batch, from a mask (batch, length) or an undefined one.
class KeyLists {
 public:
  KeyLists(const Tensor& mask, int64_t batch, int64_t length)
      : masked_(mask.defined()), length_(length), positions_(masked_ ? batch * length : 1), counts_(batch) {
    for (int64_t b = 0; b < batch; ++b) {
      counts_[b] = length;
      if (!masked_) continue;
      const bool* real = mask.data<bool>() + b * mask.strides()[0];
      const int64_t step = mask.strides()[1];
      int32_t* to = positions_ + b * length;
      int64_t count = 0;
      for (int64_t j = 0; j < length; ++j) {
        to[count] = static_cast<int32_t>(j);
        count += real[j * step] ? 1 : 0;
      }
      counts_[b] = count;
    }
  }
  KeyList operator[](int64_t b) const { return {masked_ ? positions_ + b * length_ : nullptr, counts_[b]}; }

 private:
  bool masked_;
  int64_t length_;
  Buffer<int32_t> positions_;
  Buffer<int64_t> counts_;
};

/// The number of pieces into which each of `heads` equal jobs is cut: about 32 in all, at most `most` per job, whatever
/// the number of threads.
inline int64_t pieces_per_head(int64_t heads, int64_t most) {
  return std::clamp<int64_t>((32 + heads - 1) / std::max<int64_t>(heads, 1), 1, std::max<int64_t>(most, 1));
}

inline int64_t tiles_of(int64_t length) { return ceil_div(length, kTile); }

/// The number of columns computed for a tile with `count` tokens: whole vectors.
template <class T>
int64_t columns_of(int64_t count) {
  return round_up(count, kLanes<T>);
}

// ---- loops over tiles

namespace detail {

template <int N, class T, class Begin, class Body, class End>
inline void walk_rows(int64_t rows, int64_t first, const Begin& begin, const Body& body, const End& end) {
  decltype(begin(first)) state[N];
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) state[j] = begin(first + j * kLanes<T>);
  for (int64_t m = 0; m < rows; ++m) {
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) body(state[j], m, m * kTile + first + j * kLanes<T>);
  }
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) end(state[j], first + j * kLanes<T>);
}

}  // namespace detail

/// Walks a tile row by row with a state in registers for each vector of columns: state = begin(column), then
/// body(state, row, offset) for each row, then end(state, column). T is the type of the elements.
template <class T, class Begin, class Body, class End>
inline void down_columns(int64_t rows, int64_t columns, const Begin& begin, const Body& body, const End& end) {
  constexpr int kAtOnce = 4;  // several vectors at once: down a single one, stores would collide with loads
  constexpr int64_t kWide = kAtOnce * kLanes<T>;
  int64_t i = 0;
  for (; i + kWide <= columns; i += kWide) detail::walk_rows<kAtOnce, T>(rows, i, begin, body, end);
  for (; i < columns; i += kLanes<T>) detail::walk_rows<1, T>(rows, i, begin, body, end);
}

/// The same, two rows at a time: body(state, row, column, two) for rows 0, 2, ..., where `two`, known at compile time,
/// is false if there is no next row.
template <class T, class Begin, class Body, class End>
inline void down_row_pairs(int64_t rows, int64_t columns, const Begin& begin, const Body& body, const End& end) {
  constexpr int kAtOnce = 4;
  const auto walk = [&]<int N>(std::integral_constant<int, N>, int64_t first) {
    decltype(begin(first)) state[N];
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) state[j] = begin(first + j * kLanes<T>);
    int64_t row = 0;
    for (; row + 1 < rows; row += 2) {
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) body(state[j], row, first + j * kLanes<T>, std::true_type{});
    }
    for (int j = 0; j < N && row < rows; ++j) body(state[j], row, first + j * kLanes<T>, std::false_type{});
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) end(state[j], first + j * kLanes<T>);
  };
  int64_t i = 0;
  for (; i + kAtOnce * kLanes<T> <= columns; i += kAtOnce * kLanes<T>) walk(std::integral_constant<int, kAtOnce>{}, i);
  for (; i < columns; i += kLanes<T>) walk(std::integral_constant<int, 1>{}, i);
}

// ---- sums over tiles

/// sums[i] = sum_m x(m, i) z[m]
template <class T>
void weighted_column_sums(const T* x, const T* z, int64_t rows, int64_t columns, T* sums) {
  down_columns<T>(
      rows, columns, [](int64_t) { return Vector<T>{}; },
      [&](Vector<T>& sum, int64_t m, int64_t at) { sum += load<Vector<T>>(x + at) * z[m]; },
      [&](const Vector<T>& sum, int64_t i) { store(sums + i, sum); });
}

/// sums[i] = sum_m x(m, i) y(m, i)
template <class T>
void column_products(const T* x, const T* y, int64_t rows, int64_t columns, T* sums) {
  down_columns<T>(
      rows, columns, [](int64_t) { return Vector<T>{}; },
      [&](Vector<T>& sum, int64_t, int64_t at) { sum += load<Vector<T>>(x + at) * load<Vector<T>>(y + at); },
      [&](const Vector<T>& sum, int64_t i) { store(sums + i, sum); });
}

/// top[i] = max_m value(x(m, i))
template <class T, class Value>
void column_maxima(const T* x, int64_t rows, int64_t columns, const Value& value, T* top) {
  down_columns<T>(
      rows, columns, [](int64_t) { return Vector<T>{} - std::numeric_limits<T>::infinity(); },
      [&](Vector<T>& largest, int64_t, int64_t at) { largest = max_of(value(load<Vector<T>>(x + at)), largest); },
      [&](const Vector<T>& largest, int64_t i) { store(top + i, largest); });
}

/// Adds to lanes (rows x kLanes) partial sums of sum_i x(m, i) weights[i]; null weights are 1.
template <class T>
void add_row_sums(const T* x, const T* weights, int64_t rows, int64_t columns, T* lanes) {
  for (int64_t m = 0; m < rows; ++m) {
    auto sum = load<Vector<T>>(lanes + m * kLanes<T>);
    for (int64_t i = 0; i < columns; i += kLanes<T>) {
      const auto value = load<Vector<T>>(x + m * kTile + i);
      sum += weights == nullptr ? value : value * load<Vector<T>>(weights + i);
    }
    store(lanes + m * kLanes<T>, sum);
  }
}

/// The sum of a row of lanes.
template <class T>
T lanes_total(const T* lanes) {
  return sum_of<T>(load<Vector<T>>(lanes));
}

/// sums[m] += sum_i x(m, i) weights[i]; null weights are 1.
template <class T>
void add_row_totals(const T* x, const T* weights, int64_t rows, int64_t columns, T* sums) {
  for (int64_t m = 0; m < rows; ++m) {
    Vector<T> sum{};
    for (int64_t i = 0; i < columns; i += kLanes<T>) {
      const auto value = load<Vector<T>>(x + m * kTile + i);
      sum += weights == nullptr ? value : value * load<Vector<T>>(weights + i);
    }
    sums[m] += sum_of<T>(sum);
  }
}

// ---- moving tiles

namespace detail {

template <class S>
inline Vector<ComputeType<S>> load_part(const S* from, int64_t count) {
  using V = Vector<ComputeType<S>>;
  if (count >= kLanes<ComputeType<S>>) return load<V>(from);
  S part[kLanes<ComputeType<S>>] = {};
  if (count > 0) std::memcpy(static_cast<void*>(part), from, static_cast<size_t>(count) * sizeof(S));
  return load<V>(static_cast<const S*>(part));
}
template <class S>
inline void store_part(S* to, const Vector<ComputeType<S>>& value, int64_t count) {
  if (count >= kLanes<ComputeType<S>>) {
    store(to, value);
  } else {
    S part[kLanes<ComputeType<S>>];
    store(static_cast<S*>(part), value);
    std::memcpy(static_cast<void*>(to), part, static_cast<size_t>(count) * sizeof(S));
  }
}

}  // namespace detail

/// Prefetches the tile after this one, whose tokens lie a stride apart, where hardware prefetchers do not find them.
template <class S>
void prefetch_next(Rows<const S> tile, int64_t count, int64_t dim) {
  constexpr auto kLine = static_cast<int64_t>(64 / sizeof(S));
  for (int64_t i = kTile; i < kTile + count; ++i) {
    for (int64_t d = 0; d < dim; d += kLine) __builtin_prefetch(tile[i] + d);
  }
}

/// to (dim x kTile) = factor * from^T, from (count x dim). Columns from count to the next whole vector become 0. Tokens
/// lie a stride apart, so those of the next tile are prefetched. S is the type of tokens in memory.
template <class S>
void load_transposed(Rows<const S> from, int64_t count, int64_t dim, ComputeType<S> factor, ComputeType<S>* to) {
  using T = ComputeType<S>;
  constexpr int W = kLanes<T>;
  for (int64_t token = 0; token < count; token += W) {
    for (int64_t d = 0; d < dim; d += W) {
      if (count - token >= W && dim - d >= W) {
        Vector<T> block[W];  // stays in registers, since no loop over it has a bound
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) {
          const S* at = from[token + i] + d;
          block[i] = load<Vector<T>>(at) * factor;
        }
        transpose_registers<T>(block);
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) store(to + (d + i) * kTile + token, block[i]);
        continue;
      }
      Vector<T> part[W];
      for (int i = 0; i < W; ++i) {
        part[i] = token + i < count ? detail::load_part(from[token + i] + d, dim - d) * factor : Vector<T>{};
      }
      transpose_registers<T>(part);
      for (int i = 0; i < std::min<int64_t>(W, dim - d); ++i) store(to + (d + i) * kTile + token, part[i]);
    }
  }
  prefetch_next(from, count, dim);  // not between the loads, which would have to wait for it
}

/// to (count x dim) = (from diag(factors))^T, from (dim x kTile); one factor per token.
template <class S>
void store_transposed(const ComputeType<S>* from, const ComputeType<S>* factors, int64_t count, int64_t dim,
                      Rows<S> to) {
  using T = ComputeType<S>;
  constexpr int W = kLanes<T>;
  for (int64_t token = 0; token < count; token += W) {
    const auto factor = load<Vector<T>>(factors + token);
    for (int64_t d = 0; d < dim; d += W) {
      if (count - token >= W && dim - d >= W) {
        Vector<T> block[W];
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) block[i] = load<Vector<T>>(from + (d + i) * kTile + token) * factor;
        transpose_registers<T>(block);
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) {
          S* at = to[token + i] + d;
          __builtin_prefetch(at + kTile * to.stride, 1);
          store(at, block[i]);
        }
        continue;
      }
      Vector<T> part[W];
      for (int i = 0; i < W; ++i) {
        part[i] = d + i < dim ? load<Vector<T>>(from + (d + i) * kTile + token) * factor : Vector<T>{};
      }
      transpose_registers<T>(part);
      for (int i = 0; i < std::min<int64_t>(W, count - token); ++i)
        detail::store_part(to[token + i] + d, part[i], dim - d);
    }
  }
}

/// to (count x dim, contiguous) = rows `first`, first + 1, ... of the list.
template <class S>
void gather_rows(Rows<const S> from, const KeyList& list, int64_t first, int64_t count, int64_t dim,
                 ComputeType<S>* to) {
  for (int64_t i = 0; i < count; ++i) {
    const S* row = from[list[first + i]];
    for (int64_t d = 0; d < dim; d += kLanes<ComputeType<S>>) {
      __builtin_prefetch(row + kTile * from.stride + d);
      detail::store_part(to + i * dim + d, detail::load_part(row + d, dim - d), dim - d);
    }
  }
}

/// Rows first, first + 1, ... of the list, in place if they are consecutive in memory, otherwise copied to `scratch`
/// (count x dim).
template <class S>
Rows<const S> gathered(Rows<const S> from, const KeyList& list, int64_t first, int64_t count, int64_t dim, S* scratch) {
  if (count == 0) return from;
  if (list[first + count - 1] - list[first] == count - 1) return {from[list[first]], from.stride};
  for (int64_t i = 0; i < count; ++i) std::copy_n(from[list[first + i]], dim, scratch + i * dim);
  return {scratch, dim};
}

/// store_transposed() into the rows of a list; `scratch` holds kTile x dim.
template <class S>
void store_transposed(const ComputeType<S>* from, const ComputeType<S>* factors, const KeyList& list, int64_t first,
                      int64_t count, int64_t dim, S* scratch, Rows<S> to) {
  if (count == 0) return;
  if (list[first + count - 1] - list[first] == count - 1) {
    store_transposed<S>(from, factors, count, dim, {to[list[first]], to.stride});
    return;
  }
  store_transposed<S>(from, factors, count, dim, {scratch, dim});
  for (int64_t i = 0; i < count; ++i) std::copy_n(scratch + i * dim, dim, to[list[first + i]]);
}

/// Sets the rows that are not in the list to 0.
template <class S>
void clear_unlisted(const KeyList& list, int64_t length, int64_t dim, Rows<S> rows) {
  int64_t next = 0;
  for (int64_t j = 0; j < length && list.count < length; ++j) {
    if (next < list.count && list[next] == j) {
      ++next;
    } else {
      std::fill_n(rows[j], dim, S());
    }
  }
}

}  // namespace bochner::cpu
