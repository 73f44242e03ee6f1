// Sums along rows, four rows at a time: a short row would spend most of its time on summing the lanes of one vector,
// which takes a third of the steps for four rows together.
#pragma once

#include <array>
#include <type_traits>

#include "engine/cpu/parts/lanes.h"

namespace bochner::cpu {

inline constexpr int kRowBlock = 4;

/// body(first row, number of rows as an integral_constant: 4, then 1)
template <class Body>
inline void for_row_blocks(int64_t rows, const Body& body) {
  int64_t row = 0;
  for (; row + kRowBlock <= rows; row += kRowBlock) body(row, std::integral_constant<int, kRowBlock>{});
  for (; row < rows; ++row) body(row, std::integral_constant<int, 1>{});
}

namespace detail {

/// The sums of the lanes of four vectors, all four added in the same order.
template <class T, int W = kLanes<T>>
inline Vector<T, 4> sums_of(const Vector<T, W>& a, const Vector<T, W>& b, const Vector<T, W>& c,
                            const Vector<T, W>& d) {
  if constexpr (W == 2) {
    return Vector<T, 4>{a[0] + a[1], b[0] + b[1], c[0] + c[1], d[0] + d[1]};
  } else if constexpr (W == 4) {
    const Vector<T, 4> ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Vector<T, 4> cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  } else {
    const auto halved = []<size_t... I>(const Vector<T, W>& v, std::index_sequence<I...>) {
      const Vector<T, W / 2> lower = __builtin_shufflevector(v, v, I...);
      const Vector<T, W / 2> upper = __builtin_shufflevector(v, v, (I + W / 2)...);
      return lower + upper;
    };
    constexpr auto kHalf = std::make_index_sequence<W / 2>{};
    return sums_of<T, W / 2>(halved(a, kHalf), halved(b, kHalf), halved(c, kHalf), halved(d, kHalf));
  }
}

}  // namespace detail

/// For each of R = 1 or 4 rows, the sum over i of term(r, i).
template <class T, int R, class Term>
inline std::array<T, R> row_sums(int64_t count, const Term& term) {
  using V = Vector<T>;
  V low[R] = {};
  V high[R] = {};
  T rest[R] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes<T> <= count; i += 2 * kLanes<T>) {
    for (int r = 0; r < R; ++r) low[r] += term(TypeTag<V>{}, r, i);
    for (int r = 0; r < R; ++r) high[r] += term(TypeTag<V>{}, r, i + kLanes<T>);
  }
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    for (int r = 0; r < R; ++r) low[r] += term(TypeTag<V>{}, r, i);
  }
  for (; i < count; ++i) {
    for (int r = 0; r < R; ++r) rest[r] += term(TypeTag<T>{}, r, i);
  }
  for (int r = 0; r < R; ++r) low[r] += high[r];
  const Vector<T, 4> sums = detail::sums_of<T>(low[0], low[R > 1 ? 1 : 0], low[R > 2 ? 2 : 0], low[R > 3 ? 3 : 0]);
  std::array<T, R> result;
  for (int r = 0; r < R; ++r) result[static_cast<size_t>(r)] = sums[r] + rest[r];
  return result;
}

}  // namespace bochner::cpu
