// Sums over rows, column by column, in an order that depends only on the shape.
#pragma once

#include <algorithm>
#include <type_traits>

#include "engine/cpu/parts/lanes.h"
#include "engine/parallel.h"
#include "engine/tensor.h"

namespace bochner::cpu {

/// The number of rows in one piece of parallel work over (rows, columns): enough elements to make up for the cost of
/// starting it, and at most 64 pieces, so that the partial results of pieces are small compared with the input.
inline int64_t rows_per_piece(int64_t rows, int64_t columns) {
  return std::max<int64_t>({1, ceil_div(rows, 64), 16384 / std::max<int64_t>(1, columns)});
}

/// to[j] = sum_p parts[p * columns + j], p ascending.
template <class T>
inline void add_parts(int64_t pieces, int64_t columns, const T* parts, T* to) {
  parallel_for(columns, 2048, [&](int64_t begin, int64_t end) {
    const int64_t width = end - begin;
    std::fill(to + begin, to + end, T(0));
    for (int64_t p = 0; p < pieces; ++p) {
      const T* part = parts + p * columns + begin;
      for_lanes<T>(width, [&]<class V>(TypeTag<V>, int64_t j) {
        store<V>(to + begin + j, load<V>(to + begin + j) + load<V>(part + j));
      });
    }
  });
}

/// sum[j] += sum_i x[i * stride + j] for j in [0, columns), i in [0, rows), four rows at a time. The sums of some
/// columns stay in registers from the first row to the last.
template <class T, class S>
inline void add_rows(int64_t rows, int64_t columns, const S* x, int64_t stride, T* sum) {
  const auto add = [=]<class V, int N>(TypeTag<V>, std::integral_constant<int, N>, int64_t j, int64_t step) {
    V total[N];
    for (int n = 0; n < N; ++n) total[n] = load<V>(sum + j + n * step);
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
      const S* const a = x + i * stride + j;
      for (int n = 0; n < N; ++n) {
        const V low = load<V>(a + n * step) + load<V>(a + stride + n * step);
        const V high = load<V>(a + 2 * stride + n * step) + load<V>(a + 3 * stride + n * step);
        total[n] += low + high;
      }
    }
    for (; i < rows; ++i) {
      for (int n = 0; n < N; ++n) total[n] += load<V>(x + i * stride + j + n * step);
    }
    for (int n = 0; n < N; ++n) store<V>(sum + j + n * step, total[n]);
  };
  constexpr int64_t kStep = kLanes<T>;
  int64_t j = 0;
  for (; j + 4 * kStep <= columns; j += 4 * kStep)
    add(TypeTag<Vector<T>>{}, std::integral_constant<int, 4>{}, j, kStep);
  for (; j + kStep <= columns; j += kStep) add(TypeTag<Vector<T>>{}, std::integral_constant<int, 1>{}, j, kStep);
  for (; j < columns; ++j) add(TypeTag<T>{}, std::integral_constant<int, 1>{}, j, int64_t{1});
}

}  // namespace bochner::cpu
