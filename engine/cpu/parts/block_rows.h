// Common to the fused blocks of a Transformer (linear, feed_forward): they walk tiles of rows, keep intermediate values
// in scratch memory, apply dropout on the way and sum the gradients of weights piece by piece.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "engine/bf16.h"
#include "engine/cpu/parts/column_sum.h"
#include "engine/cpu/parts/dropout_window.h"
#include "engine/tensor.h"

namespace bochner::cpu {

/// Several matrices, one after the other in one block of memory.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::initializer_list<int64_t> sizes) {
    int64_t total = 0;
    for (const int64_t size : sizes) total += round_up(size, kAlignment);
    memory_ = Tensor::empty({total}, dtype_of<T>);
    next_ = memory_.data<T>();
  }
  T* take(int64_t size) {
    T* const place = next_;
    next_ += round_up(size, kAlignment);
    return place;
  }

 private:
  static constexpr int64_t kAlignment = 16;  // elements
  Tensor memory_;
  T* next_;
};

/// body(row, factor) for each row of a (rows x width) piece of a matrix with `columns` columns, whose first element is
/// number `first`; factor(j) is the dropout factor of column j, or 1. Short rows share a draw.
template <class T, class Body>
void for_each_masked_row(const Dropout& drop, DropoutWindow<T>& window, int64_t first, int64_t rows, int64_t width,
                         int64_t columns, const Body& body) {
  if (!drop.active()) {
    for (int64_t row = 0; row < rows; ++row) body(row, [](int64_t) { return T(1); });
    return;
  }
  const int64_t block = width == columns ? std::max<int64_t>(1, DropoutWindow<T>::kElements / width) : 1;
  for (int64_t row = 0; row < rows; row += block) {
    const int64_t count = std::min(block, rows - row);
    const auto factor = window.draw(first + row * columns, (count - 1) * columns + width);
    for (int64_t i = 0; i < count; ++i) body(row + i, [factor, at = i * columns](int64_t j) { return factor(at + j); });
  }
}

/// A row of `dim` elements may be longer than a window of draws: body(row, first column, width, factor) for each part.
template <class T, class Body>
void for_each_masked_run(const Dropout& drop, DropoutWindow<T>& window, int64_t first, int64_t rows, int64_t columns,
                         const Body& body) {
  constexpr int64_t kRun = DropoutWindow<T>::kElements;
  for (int64_t column = 0; column < columns; column += kRun) {
    const int64_t width = std::min(kRun, columns - column);
    for_each_masked_row(drop, window, first + column, rows, width, columns,
                        [&](int64_t row, const auto& factor) { body(row, column, width, factor); });
  }
}

/// A row of y = s + shift, plus `kept` unless that is null, without dropout.
template <class T, class S>
void finish_row(int64_t width, const T* s, const T* shift, const S* kept, S* y) {
  if (kept == nullptr) {
    for_lanes<T>(width, [=]<class V>(TypeTag<V>, int64_t j) { store<V>(y + j, load<V>(s + j) + load<V>(shift + j)); });
  } else {
    for_lanes<T>(width, [=]<class V>(TypeTag<V>, int64_t j) {
      store<V>(y + j, load<V>(kept + j) + (load<V>(s + j) + load<V>(shift + j)));
    });
  }
}

/// The number of rows in one piece of a backward pass, each piece with `size` sums of weight gradients: a multiple of
/// `tile`, enough rows to be worth the sums, at most 32 pieces and 64 MB of sums; half of that if S, the type of
/// activations, is bf16, so that the sums keep the same share of a step's memory.
template <class S>
int64_t rows_per_gradient(int64_t rows, int64_t size, int64_t tile) {
  constexpr int64_t kBytes = int64_t{std::is_same_v<S, bfloat16> ? 32 : 64} << 20;
  const int64_t affordable = kBytes / static_cast<int64_t>(sizeof(ComputeType<S>)) / std::max<int64_t>(1, size);
  const int64_t pieces = std::clamp<int64_t>(affordable, 2, 32);
  const int64_t tiles = ceil_div(rows, tile);
  return std::max<int64_t>(ceil_div(tiles, pieces), 1) * tile;
}

/// The sum over pieces of `grain` rows of what body(begin, end, sums) adds to its `size` zeros.
template <class T, class Body>
Tensor sum_gradients(int64_t rows, int64_t grain, int64_t size, const Body& body) {
  const int64_t pieces = ceil_div(rows, grain);
  const Tensor parts = Tensor::empty({pieces, size}, dtype_of<T>);
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    T* const sums = parts.data<T>() + begin / grain * size;
    std::fill(sums, sums + size, T(0));
    body(begin, end, sums);
  });
  const Tensor total = Tensor::empty({size}, dtype_of<T>);
  add_parts(pieces, size, parts.data<T>(), total.data<T>());
  return total;
}

/// to = the part of `total` that begins at `from`, if `to` is defined.
template <class T>
void hand_out(const Tensor& total, int64_t from, const Tensor& to) {
  if (to.defined()) std::copy_n(total.data<T>() + from, to.size(), to.data<T>());
}

}  // namespace bochner::cpu
