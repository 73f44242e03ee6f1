// Sums over rows, column by column, in an order that follows from the shape alone.
#pragma once

#include <algorithm>

#include "engine/cpu/parts/lanes.h"
#include "engine/parallel.h"
#include "engine/tensor.h"

namespace bochner::cpu {

/// The rows of one piece of parallel work over (rows, columns): enough elements to make up for the cost of starting it,
/// and at most 64 pieces, so that the partial results of pieces are small beside the input.
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

/// sum[j] += sum_i x[i * stride + j] for j in [0, columns), i in [0, rows), four rows at a time.
template <class T, class S>
inline void add_rows(int64_t rows, int64_t columns, const S* x, int64_t stride, T* sum) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const S* const a = x + i * stride;
    for_lanes<T>(columns, [&]<class V>(TypeTag<V>, int64_t j) {
      const V low = load<V>(a + j) + load<V>(a + stride + j);
      const V high = load<V>(a + 2 * stride + j) + load<V>(a + 3 * stride + j);
      store<V>(sum + j, load<V>(sum + j) + (low + high));
    });
  }
  for (; i < rows; ++i) {
    const S* const a = x + i * stride;
    for_lanes<T>(columns,
                 [&]<class V>(TypeTag<V>, int64_t j) { store<V>(sum + j, load<V>(sum + j) + load<V>(a + j)); });
  }
}

}  // namespace bochner::cpu
