#include "engine/cuda/reduce.h"

#include <algorithm>
#include <limits>

#include "engine/cuda/launch.h"

namespace bochner::cuda {
namespace {

struct Sum {
  template <class T>
  BOCHNER_DEVICE static T start() {
    return T(0);
  }
  template <class T>
  BOCHNER_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  BOCHNER_DEVICE static T start() {
    constexpr bool infinite = std::numeric_limits<T>::has_infinity;
    return infinite ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  }
  template <class T>
  BOCHNER_DEVICE T operator()(T a, T b) const {
    return a > b || a != a ? a : b;  // NaN wins
  }
};
struct Min {
  template <class T>
  BOCHNER_DEVICE static T start() {
    constexpr bool infinite = std::numeric_limits<T>::has_infinity;
    return infinite ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  template <class T>
  BOCHNER_DEVICE T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

/// inner = 1: a team for each piece of a row.
template <class Op, class T>
struct Rows {
  int64_t count, pieces, chunk;
  const T* x;
  T* y;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index() / pieces;
    const int64_t begin = team.index() % pieces * chunk;
    const int64_t end = begin + chunk < count ? begin + chunk : count;
    T value = Op::template start<T>();
    for (int64_t i = begin + team.rank(); i < end; i += team.size()) value = Op{}(value, x[row * count + i]);
    value = team.reduce(value, Op{});
    if (team.rank() == 0) y[team.index()] = value;
  }
};

/// inner > 1: a thread for each column of a piece.
template <class Op, class T>
struct Columns {
  int64_t count, inner, pieces, chunk;
  const T* x;
  T* y;

  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % inner;
    const int64_t piece = i / inner % pieces;
    const int64_t o = i / inner / pieces;
    const int64_t begin = piece * chunk;
    const int64_t end = begin + chunk < count ? begin + chunk : count;
    const T* from = x + (o * count + begin) * inner + column;
    T value = Op::template start<T>();
    for (int64_t j = begin; j < end; ++j, from += inner) value = Op{}(value, *from);
    y[i] = value;
  }
};

constexpr int64_t kThreads = 1 << 17;  // about as many as a card runs at once

template <class Op, class T>
void run(int64_t outer, int64_t count, int64_t inner, const T* x, T* y) {
  int64_t chunk = std::max<int64_t>(count, 1);
  if (inner == 1 && outer < 1024) {
    chunk = std::min<int64_t>(chunk, 8192);
  } else if (inner > 1) {
    chunk = std::min(chunk, std::max<int64_t>(32, count / std::max<int64_t>(1, kThreads / (outer * inner))));
  }
  const int64_t pieces = (std::max<int64_t>(count, 1) + chunk - 1) / chunk;
  const Tensor parts =
      pieces > 1 ? Tensor::empty({outer * pieces * inner}, dtype_of<T>, Device::cuda(platform::current())) : Tensor();
  T* to = pieces > 1 ? parts.data<T>() : y;
  if (inner == 1) {
    launch_rows(outer * pieces, chunk, Rows<Op, T>{count, pieces, chunk, x, to});
  } else {
    launch_threads(outer * pieces * inner, Columns<Op, T>{count, inner, pieces, chunk, x, to});
  }
  if (pieces > 1) run<Op, T>(outer, pieces, inner, to, y);
}

}  // namespace

void reduce(Reduction op, int64_t outer, int64_t count, int64_t inner, const Tensor& x, const Tensor& y) {
  visit_numeric(x.dtype(), "reduce", [&]<class T>(TypeTag<T>) {
    switch (op) {
      case Reduction::sum:
        return run<Sum, T>(outer, count, inner, x.data<T>(), y.data<T>());
      case Reduction::max:
        return run<Max, T>(outer, count, inner, x.data<T>(), y.data<T>());
      case Reduction::min:
        return run<Min, T>(outer, count, inner, x.data<T>(), y.data<T>());
    }
  });
}

}  // namespace bochner::cuda
