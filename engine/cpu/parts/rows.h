// Walks a Loop row by row on the CPU, in parallel. A row is a run of the innermost axis.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "engine/loop.h"
#include "engine/parallel.h"

namespace bochner::cpu {

/// The number of elements in one piece of parallel work: enough to make up for the cost of starting it.
inline constexpr int64_t kPiece = 16384;

/// One row: where it begins and the stride of each operand.
template <int N>
struct Row {
  int64_t size;
  std::array<int64_t, N> offsets;  ///< in elements from the start of each operand
  std::array<int64_t, N> strides;

  bool contiguous() const {
    return std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 1; });
  }
};

/// Where a row of a Loop begins: its place along each axis but the innermost, counted up like the digits of an
/// odometer. Dividing for each row would cost more than the arithmetic of a short row.
template <int N>
class RowPlace {
 public:
  RowPlace(const Loop& loop, int64_t row) : loop_(loop) {
    for (int axis = loop.rank - 2; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      digits_[a] = row % loop.sizes[a];
      row /= loop.sizes[a];
      for (size_t i = 0; i < N; ++i) offsets_[i] += digits_[a] * loop.strides[i][a];
    }
  }

  const std::array<int64_t, N>& offsets() const { return offsets_; }

  void next() {
    for (int axis = loop_.rank - 2; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      for (size_t i = 0; i < N; ++i) offsets_[i] += loop_.strides[i][a];
      if (++digits_[a] < loop_.sizes[a]) return;
      for (size_t i = 0; i < N; ++i) offsets_[i] -= digits_[a] * loop_.strides[i][a];
      digits_[a] = 0;
    }
  }

 private:
  const Loop& loop_;
  std::array<int64_t, Dims::kMaxRank> digits_{};
  std::array<int64_t, N> offsets_{};
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
  std::array<int64_t, N> strides;
  for (size_t i = 0; i < N; ++i) strides[i] = loop.strides[i][inner_axis];
  parallel_for(outer * splits, grain, [&](int64_t begin, int64_t end) {
    RowPlace<N> place(loop, begin / splits);
    int64_t split = begin % splits;
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = split * kPiece;
      Row<N> row{std::min(inner - first, splits > 1 ? kPiece : inner), place.offsets(), strides};
      for (size_t i = 0; i < N; ++i) row.offsets[i] += first * strides[i];
      body(row);
      if (++split < splits) continue;
      split = 0;
      place.next();
    }
  });
}

}  // namespace bochner::cpu
