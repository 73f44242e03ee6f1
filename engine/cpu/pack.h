// Matrices copied with rows a padded distance apart, for products of tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/cpu/vector.h"
#include "engine/parallel.h"

namespace bochner::cpu {

/// A row stride for `columns` elements that is an odd number of cache lines: rows a power of two apart would share a
/// few sets of the L1 cache and push one another out.
template <class T>
constexpr int64_t padded(int64_t columns) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t lines = (columns + kLine - 1) / kLine;
  return (lines + 1 - lines % 2) * kLine;
}

/// to (rows x columns) = from
template <class T>
void copy_rows(int64_t rows, int64_t columns, const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  for (int64_t i = 0; i < rows; ++i)
    std::copy(from + i * from_stride, from + i * from_stride + columns, to + i * to_stride);
}

/// to (columns x rows) = from (rows x columns) transposed, in squares that stay in the cache.
template <class T>
void copy_transposed(int64_t rows, int64_t columns, const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  constexpr int64_t kSquare = 16;
  for (int64_t i = 0; i < rows; i += kSquare) {
    for (int64_t j = 0; j < columns; j += kSquare) {
      const int64_t end_i = std::min(rows, i + kSquare);
      const int64_t end_j = std::min(columns, j + kSquare);
      for (int64_t c = j; c < end_j; ++c) {
        for (int64_t r = i; r < end_i; ++r) to[c * to_stride + r] = from[r * from_stride + c];
      }
    }
  }
}

}  // namespace bochner::cpu
