// Sums over the rows of a matrix, column by column, in an order that follows from its sizes: first over the rows of a
// piece, then over pieces.
#pragma once

#include <algorithm>

#include "engine/cuda/parts/launch.h"
#include "engine/tensor.h"

namespace bochner::cuda {

/// Columns of a strip: a block's threads are kStrip columns by kStripRows rows.
inline constexpr int kStrip = 32;
inline constexpr int kStripRows = 8;

/// Rows of a piece: enough pieces to keep a card busy, few enough that their sums are little beside the matrix.
inline int64_t strip_rows_per_piece(int64_t rows, int64_t columns) {
  const int64_t strips = ceil_div(columns, kStrip);
  const int64_t pieces = std::max<int64_t>(1, 2048 / strips);
  return std::max<int64_t>(4 * kStripRows, ceil_div(rows, pieces));
}

/// A block for each strip of columns of each piece of rows: parts[piece][c][column] = sum over the rows of the piece of
/// term(row, column, sums), which adds to sums[0 .. count).
template <int count, class T, class Term>
struct StripSums {
  int64_t rows, columns, strips, piece_rows;
  Term term;
  T* parts;  ///< (pieces, count, columns)

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    T* shared = team.template shared<T>();  // (count, kStripRows, kStrip)
    const int64_t strip = team.index() % strips;
    const int64_t piece = team.index() / strips;
    const int64_t end = (piece + 1) * piece_rows < rows ? (piece + 1) * piece_rows : rows;
    for (int place = team.rank(); place < kStrip * kStripRows; place += team.size()) {
      const int64_t column = strip * kStrip + place % kStrip;
      T sums[count] = {};
      if (column < columns) {
        for (int64_t row = piece * piece_rows + place / kStrip; row < end; row += kStripRows) term(row, column, sums);
      }
      for (int c = 0; c < count; ++c) shared[c * kStrip * kStripRows + place] = sums[c];
    }
    team.sync();
    for (int place = team.rank(); place < kStrip * count; place += team.size()) {
      const int64_t column = strip * kStrip + place % kStrip;
      const int c = place / kStrip;
      if (column >= columns) continue;
      T sum = 0;
      for (int row = 0; row < kStripRows; ++row) sum += shared[(c * kStripRows + row) * kStrip + place % kStrip];
      parts[(piece * count + c) * columns + column] = sum;
    }
  }
};

/// to[c][column] = the sum of parts over pieces.
template <int count, class T>
struct AddPieces {
  int64_t pieces, columns;
  const T* parts;
  T* to[count];

  BOCHNER_DEVICE void operator()(int64_t i) const {
    T sum = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) sum += parts[piece * count * columns + i];
#pragma unroll
    for (int c = 0; c < count; ++c) {  // an index known to the compiler keeps the pointers in registers
      if (i / columns == c) to[c][i % columns] = sum;
    }
  }
};

/// to[c][column] = sum over rows of what term(row, column, sums) adds to sums[c].
template <int count, class T, class Term>
void strip_sums(int64_t rows, int64_t columns, const Term& term, T* const (&to)[count]) {
  if (columns == 0) return;
  const int64_t strips = ceil_div(columns, kStrip);
  const int64_t piece_rows = strip_rows_per_piece(rows, columns);
  const int64_t pieces = std::max<int64_t>(1, ceil_div(rows, piece_rows));
  const Tensor parts = Tensor::empty({pieces * count * columns}, dtype_of<T>, Device::cuda(platform::current()));
  launch_blocks<kStrip * kStripRows>(
      pieces * strips, count * kStrip * kStripRows * sizeof(T),
      StripSums<count, T, Term>{rows, columns, strips, piece_rows, term, parts.data<T>()});
  AddPieces<count, T> add{pieces, columns, parts.data<T>(), {}};
  for (int c = 0; c < count; ++c) add.to[c] = to[c];
  launch_threads(count * columns, add);
}

}  // namespace bochner::cuda
