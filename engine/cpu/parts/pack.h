// Copies matrices to rows at a padded distance, for products of tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/cpu/parts/transpose.h"
#include "engine/parallel.h"

namespace bochner::cpu {

/// A row stride for `columns` elements that is an odd number of cache lines. Rows a power of two apart would share a
/// few sets of the L1 cache and evict one another.
template <class T>
constexpr int64_t padded(int64_t columns) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t lines = ceil_div(columns, kLine);
  return (lines + 1 - lines % 2) * kLine;
}

/// to (rows x columns) = from
template <class T>
void copy_rows(int64_t rows, int64_t columns, const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  for (int64_t i = 0; i < rows; ++i)
    std::copy(from + i * from_stride, from + i * from_stride + columns, to + i * to_stride);
}

/// to (columns x rows) = from (rows x columns) transposed, square by square of whole vectors.
template <class T>
void copy_transposed(int64_t rows, int64_t columns, const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  constexpr int W = kLanes<T>;
  for (int64_t i = 0; i < rows; i += W) {
    for (int64_t j = 0; j < columns; j += W) {
      const T* const square = from + i * from_stride + j;
      T* const place = to + j * to_stride + i;
      if (rows - i >= W && columns - j >= W) {
        Vector<T> x[W];
        for (int r = 0; r < W; ++r) x[r] = load<Vector<T>>(square + r * from_stride);
        transpose_registers<T>(x);
        for (int c = 0; c < W; ++c) store(place + c * to_stride, x[c]);
        continue;
      }
      const int64_t height = std::min<int64_t>(W, rows - i);
      const int64_t width = std::min<int64_t>(W, columns - j);
      for (int64_t c = 0; c < width; ++c) {
        for (int64_t r = 0; r < height; ++r) place[c * to_stride + r] = square[r * from_stride + c];
      }
    }
  }
}

}  // namespace bochner::cpu
