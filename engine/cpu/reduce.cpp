#include "engine/cpu/reduce.h"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

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
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <class T>
  static constexpr T start = std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                                  : std::numeric_limits<T>::max();
  template <class T>
  static T merge(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

constexpr int64_t kPiece = 8192;

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

/// y (inner) = reduction of x (count, inner) over its rows.
template <class Op, class T>
void reduce_rows(const T* x, int64_t count, int64_t inner, T* y) {
  if (inner == 1) {
    *y = reduce_row<Op>(x, count);
    return;
  }
  std::fill(y, y + inner, Op::template start<T>);
  for (int64_t i = 0; i < count; ++i) {
    const T* row = x + i * inner;
    for (int64_t j = 0; j < inner; ++j) y[j] = Op::merge(y[j], row[j]);
  }
}

template <class Op, class T>
void reduce_all(int64_t outer, int64_t count, int64_t inner, const T* x, T* y) {
  const int64_t rows = std::max<int64_t>(1, kPiece / inner);  // rows of one piece
  const int64_t pieces = std::max<int64_t>(1, (count + rows - 1) / rows);
  if (pieces == 1) {
    const int64_t grain = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, count * inner));
    parallel_for(outer, grain, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) reduce_rows<Op>(x + o * count * inner, count, inner, y + o * inner);
    });
    return;
  }
  const Tensor partial = Tensor::empty({outer * pieces, inner}, dtype_of<T>);
  T* parts = partial.data<T>();
  parallel_for(outer * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % pieces * rows;
      reduce_rows<Op>(x + (i / pieces * count + first) * inner, std::min(rows, count - first), inner,
                      parts + i * inner);
    }
  });
  reduce_all<Op>(outer, pieces, inner, parts, y);
}

}  // namespace

void reduce(Reduction op, int64_t outer, int64_t count, int64_t inner, const Tensor& x, const Tensor& y) {
  visit_numeric(x.dtype(), "reduce", [&]<class T>(TypeTag<T>) {
    switch (op) {
      case Reduction::sum:
        return reduce_all<Sum>(outer, count, inner, x.data<T>(), y.data<T>());
      case Reduction::max:
        return reduce_all<Max>(outer, count, inner, x.data<T>(), y.data<T>());
      case Reduction::min:
        return reduce_all<Min>(outer, count, inner, x.data<T>(), y.data<T>());
    }
  });
}

}  // namespace bochner::cpu
