// Sums over the rows of a matrix, column by column, in an order that depends only on its size: first over the rows of a
// piece, then over the pieces.
//
// What is summed is a term: term(row, column, sums) adds the contribution of the V columns from `column` on to sums[0
// .. count), V being 4 if whole vectors can be moved (term.movable() says whether its pointers are aligned), otherwise
// 1.
#pragma once

#include <algorithm>

#include "engine/bf16.h"
#include "engine/cuda/parts/elementwise.h"
#include "engine/cuda/parts/launch.h"
#include "engine/tensor.h"

namespace bochner::cuda {

/// A block's threads form kStrip vectors of columns by kStripRows rows.
inline constexpr int kStrip = 32;
inline constexpr int kStripRows = 8;
/// Threads that share the pieces of a column.
inline constexpr int kPieceGroups = 32;

/// Rows per piece: enough pieces to keep a card busy, few enough that their sums are small next to the matrix.
inline int64_t strip_rows_per_piece(int64_t rows, int64_t columns) {
  const int64_t strips = ceil_div(columns, kStrip);
  const int64_t pieces = std::max<int64_t>(1, 8192 / strips);
  return std::max<int64_t>(4 * kStripRows, ceil_div(rows, pieces));
}

/// One block per strip of columns of each piece of rows: parts[piece][c][column] = the sum of the term over the rows of
/// the piece. Each column is added up in the same order whatever V is.
template <int count, class T, int V, class Term>
struct StripSums {
  static constexpr int kColumns = V * kStrip;
  int64_t rows, columns, strips, piece_rows;
  Term term;
  T* parts;  ///< (pieces, count, columns)

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    T* shared = team.template shared<T>();  // (count, kStripRows, kColumns)
    const int64_t strip = team.index() % strips;
    const int64_t piece = team.index() / strips;
    const int64_t end = (piece + 1) * piece_rows < rows ? (piece + 1) * piece_rows : rows;
    for (int place = team.rank(); place < kStrip * kStripRows; place += team.size()) {
      const int64_t column = strip * kColumns + V * (place % kStrip);
      Vector<T, V> sums[count] = {};
      if (column < columns) {
        for (int64_t row = piece * piece_rows + place / kStrip; row < end; row += kStripRows) term(row, column, sums);
      }
      for (int c = 0; c < count; ++c) store(shared + (c * kStrip * kStripRows + place) * V, sums[c]);
    }
    team.sync();
    for (int place = team.rank(); place < kColumns * count; place += team.size()) {
      const int64_t column = strip * kColumns + place % kColumns;
      const int c = place / kColumns;
      if (column >= columns) continue;
      T sum = 0;
      for (int row = 0; row < kStripRows; ++row) sum += shared[(c * kStripRows + row) * kColumns + place % kColumns];
      parts[(piece * count + c) * columns + column] = sum;
    }
  }
};

/// to[c][column] = the sum of parts over the pieces; one block per kStrip of the count * columns entries.
template <int count, class T>
struct AddPieces {
  int64_t pieces, columns;
  const T* parts;
  T* to[count];

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    T* shared = team.template shared<T>();  // (kPieceGroups, kStrip)
    const int64_t first = team.index() * kStrip;
    for (int place = team.rank(); place < kStrip * kPieceGroups; place += team.size()) {
      const int64_t entry = first + place % kStrip;
      T sum = 0;
      if (entry < count * columns) {
#pragma unroll 4
        for (int64_t piece = place / kStrip; piece < pieces; piece += kPieceGroups) {
          sum += parts[piece * count * columns + entry];
        }
      }
      shared[place] = sum;
    }
    team.sync();
    for (int place = team.rank(); place < kStrip; place += team.size()) {
      const int64_t entry = first + place;
      if (entry >= count * columns) continue;
      T sum = 0;
      for (int group = 0; group < kPieceGroups; ++group) sum += shared[group * kStrip + place];
#pragma unroll
      for (int c = 0; c < count; ++c) {  // an index known at compile time keeps the pointers in registers
        if (entry / columns == c) to[c][entry % columns] = sum;
      }
    }
  }
};

/// to[c][column] = the sum over rows of what the term adds to sums[c].
template <int count, class T, class Term>
void strip_sums(int64_t rows, int64_t columns, const Term& term, T* const (&to)[count]) {
  if (columns == 0) return;
  const int64_t piece_rows = strip_rows_per_piece(rows, columns);
  const int64_t pieces = std::max<int64_t>(1, ceil_div(rows, piece_rows));
  const Tensor parts = Tensor::empty({pieces * count * columns}, dtype_of<T>, Device::cuda(platform::current()));
  const auto sum = [&]<int V>(std::integral_constant<int, V>) {
    using Sums = StripSums<count, T, V, Term>;
    const int64_t strips = ceil_div(columns, Sums::kColumns);
    launch_blocks<kStrip * kStripRows>(pieces * strips, count * kStripRows * Sums::kColumns * sizeof(T),
                                       Sums{rows, columns, strips, piece_rows, term, parts.data<T>()});
  };
  if (columns % 4 == 0 && term.movable()) {
    sum(std::integral_constant<int, 4>{});
  } else {
    sum(std::integral_constant<int, 1>{});
  }
  AddPieces<count, T> add{pieces, columns, parts.data<T>(), {}};
  for (int c = 0; c < count; ++c) add.to[c] = to[c];
  launch_blocks<kStrip * kPieceGroups>(ceil_div(count * columns, kStrip), kStrip * kPieceGroups * sizeof(T), add);
}

/// The elements themselves as terms.
template <class S>
struct ElementTerm {
  using T = ComputeType<S>;
  int64_t columns;
  const S* x;
  bool movable() const { return aligned(x); }
  template <int V>
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, Vector<T, V> (&sums)[1]) const {
    const Vector<T, V> value = load_as<T, V>(x + row * columns + column);
#pragma unroll
    for (int j = 0; j < V; ++j) sums[0].at[j] += value.at[j];
  }
};

}  // namespace bochner::cuda
