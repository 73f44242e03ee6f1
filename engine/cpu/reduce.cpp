#include "engine/ops/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

template <class T>
bool is_nan([[maybe_unused]] T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

struct Sum {
  template <class T>
  static constexpr T start = T(0);
  template <class T>
  static T merge(T a, T b) {
    return a + b;
  }
};
struct Max {
  template <class T>
  static constexpr T start = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                                  : std::numeric_limits<T>::lowest();
  template <class T>
  static T merge(T a, T b) {
    return a > b || is_nan(a) ? a : b;
  }
};
struct Min {
  template <class T>
  static constexpr T start = std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                                  : std::numeric_limits<T>::max();
  template <class T>
  static T merge(T a, T b) {
    return a < b || is_nan(a) ? a : b;
  }
};

constexpr int64_t kPiece = 8192;   // elements per piece of a long reduction
constexpr int64_t kColumns = 256;  // columns per piece of a wide one

template <class Op, class T>
T reduce_row(const T* x, int64_t count) {
  constexpr int64_t kLanes = 64;
  std::array<T, kLanes> lanes;
  lanes.fill(Op::template start<T>);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j)
      lanes[static_cast<size_t>(j)] = Op::merge(lanes[static_cast<size_t>(j)], x[i + j]);
  }
  for (int64_t j = 0; i + j < count; ++j)
    lanes[static_cast<size_t>(j)] = Op::merge(lanes[static_cast<size_t>(j)], x[i + j]);
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) lanes[j] = Op::merge(lanes[j], lanes[j + width]);
  }
  return lanes[0];
}

/// y (columns) = reduction over `count` rows of x, which lie `stride` apart.
template <class Op, class T>
void reduce_rows(const T* x, int64_t count, int64_t stride, int64_t columns, T* y) {
  std::fill(y, y + columns, Op::template start<T>);
  for (int64_t i = 0; i < count; ++i) {
    const T* row = x + i * stride;
    for (int64_t j = 0; j < columns; ++j) y[j] = Op::merge(y[j], row[j]);
  }
}

/// Wide: pieces are blocks of columns, each reduced over all rows.
template <class Op, class T>
void reduce_wide(int64_t outer, int64_t count, int64_t inner, const T* x, T* y) {
  const int64_t blocks = ceil_div(inner, kColumns);
  parallel_for(outer * blocks, std::max<int64_t>(1, kPiece / (kColumns * std::max<int64_t>(1, count))),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t column = i % blocks * kColumns;
                   reduce_rows<Op>(x + i / blocks * count * inner + column, count, inner,
                                   std::min(kColumns, inner - column), y + i / blocks * inner + column);
                 }
               });
}

/// Long: pieces are runs of rows; their results are reduced in turn.
template <class Op, class T>
void reduce_long(int64_t outer, int64_t count, int64_t inner, const T* x, T* y) {
  const int64_t rows = std::max<int64_t>(16, kPiece / inner);  // per piece
  const int64_t pieces = std::max<int64_t>(1, ceil_div(count, rows));
  const Tensor partial = pieces > 1 ? Tensor::empty({outer * pieces, inner}, dtype_of<T>) : Tensor();
  T* const parts = pieces > 1 ? partial.data<T>() : y;
  const int64_t grain = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, std::min(rows, count) * inner));
  parallel_for(outer * pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % pieces * rows;
      const int64_t size = std::min(rows, count - first);
      const T* from = x + (i / pieces * count + first) * inner;
      if (inner == 1) {
        parts[i] = reduce_row<Op>(from, size);
      } else {
        reduce_rows<Op>(from, size, inner, inner, parts + i * inner);
      }
    }
  });
  if (pieces > 1) reduce_long<Op>(outer, pieces, inner, parts, y);
}

template <class Op, class T>
void reduce_all(int64_t outer, int64_t count, int64_t inner, const T* x, T* y) {
  inner >= 4 * kColumns ? reduce_wide<Op>(outer, count, inner, x, y) : reduce_long<Op>(outer, count, inner, x, y);
}

}  // namespace

void reduce(Reducer op, int64_t outer, int64_t count, int64_t inner, const Tensor& x, const Tensor& y) {
  visit_numeric(x.dtype(), "reduce", [&]<class T>(TypeTag<T>) {
    switch (op) {
      case Reducer::sum:
        return reduce_all<Sum>(outer, count, inner, x.data<T>(), y.data<T>());
      case Reducer::max:
        return reduce_all<Max>(outer, count, inner, x.data<T>(), y.data<T>());
      case Reducer::min:
        return reduce_all<Min>(outer, count, inner, x.data<T>(), y.data<T>());
    }
  });
}

}  // namespace bochner::cpu
