// Walks a Loop row by row on the CPU, in parallel. A row is a run of the innermost axis.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "engine/loop.h"
#include "engine/parallel.h"

namespace bochner::cpu {

/// The elements of one piece of parallel work: enough to make up for the cost of starting it.
inline constexpr int64_t kPiece = 16384;

/// One row: pointers to its first element and the stride of each operand.
template <int N>
struct Row {
  int64_t size;
  std::array<int64_t, N> offsets;  ///< in elements from the start of each operand
  std::array<int64_t, N> strides;

  bool contiguous() const {
    return std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 1; });
  }
};

/// body(row) for every row; long rows come in pieces. N is the number of operands.
template <int N, class Body>
void for_each_row(const Loop& loop, const Body& body) {
  if (loop.size == 0) return;
  const auto inner_axis = static_cast<size_t>(loop.rank - 1);
  const int64_t inner = loop.sizes[inner_axis];
  const int64_t outer = loop.size / inner;
  const int64_t splits = ceil_div(inner, kPiece);
  const int64_t grain = splits > 1 ? 1 : std::max<int64_t>(1, kPiece / inner);
  parallel_for(outer * splits, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = piece % splits * kPiece;
      Row<N> row{std::min(inner - first, splits > 1 ? kPiece : inner), {}, {}};
      int64_t index = piece / splits;
      for (int axis = loop.rank - 2; axis >= 0; --axis) {
        const auto a = static_cast<size_t>(axis);
        const int64_t position = index % loop.sizes[a];
        index /= loop.sizes[a];
        for (size_t i = 0; i < N; ++i) row.offsets[i] += position * loop.strides[i][a];
      }
      for (size_t i = 0; i < N; ++i) {
        row.strides[i] = loop.strides[i][inner_axis];
        row.offsets[i] += first * row.strides[i];
      }
      body(row);
    }
  });
}

}  // namespace bochner::cpu
