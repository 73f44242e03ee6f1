#include "engine/ops/reduce.h"

#include <algorithm>
#include <limits>

#include "engine/bf16.h"
#include "engine/cuda/parts/launch.h"

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
    return a > b || a != a ? a : b;  // NaN takes precedence
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

/// inner = 1: a team per piece of a row. S and R are the types of x and y in memory.
template <class Op, class S, class R>
struct Rows {
  using T = ComputeType<S>;
  int64_t count, pieces, chunk;
  const S* x;
  R* y;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index() / pieces;
    const int64_t begin = team.index() % pieces * chunk;
    const int64_t end = begin + chunk < count ? begin + chunk : count;
    T value = Op::template start<T>();
    for (int64_t i = begin + team.rank(); i < end; i += team.size())
      value = Op{}(value, static_cast<T>(x[row * count + i]));
    value = team.reduce(value, Op{});
    if (team.rank() == 0) y[team.index()] = static_cast<R>(value);
  }
};

/// inner > 1: one thread per column of a piece.
template <class Op, class S, class R>
struct Columns {
  using T = ComputeType<S>;
  int64_t count, inner, pieces, chunk;
  const S* x;
  R* y;

  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % inner;
    const int64_t piece = i / inner % pieces;
    const int64_t o = i / inner / pieces;
    const int64_t begin = piece * chunk;
    const int64_t end = begin + chunk < count ? begin + chunk : count;
    const S* from = x + (o * count + begin) * inner + column;
    T value = Op::template start<T>();
    for (int64_t j = begin; j < end; ++j, from += inner) value = Op{}(value, static_cast<T>(*from));
    y[i] = static_cast<R>(value);
  }
};

constexpr int64_t kThreads = 1 << 17;  // about as many as a card runs at once

template <class Op, class S, class R>
void run(int64_t outer, int64_t count, int64_t inner, const S* x, R* y) {
  using T = ComputeType<S>;
  int64_t chunk = std::max<int64_t>(count, 1);
  if (inner == 1 && outer < 1024) {
    chunk = std::min<int64_t>(chunk, 8192);
  } else if (inner > 1) {
    chunk = std::min(chunk, std::max<int64_t>(32, count / std::max<int64_t>(1, kThreads / (outer * inner))));
  }
  const int64_t pieces = ceil_div(std::max<int64_t>(count, 1), chunk);
  const Tensor parts =
      pieces > 1 ? Tensor::empty({outer * pieces * inner}, dtype_of<T>, Device::cuda(platform::current())) : Tensor();
  const auto pass = [&]<class To>(To* to) {
    if (inner == 1) {
      launch_rows(outer * pieces, chunk, Rows<Op, S, To>{count, pieces, chunk, x, to});
    } else {
      launch_threads(outer * pieces * inner, Columns<Op, S, To>{count, inner, pieces, chunk, x, to});
    }
  };
  if (pieces == 1) return pass(y);
  pass(parts.data<T>());
  run<Op, T, R>(outer, pieces, inner, parts.data<T>(), y);
}

}  // namespace

void reduce(Reducer op, int64_t outer, int64_t count, int64_t inner, const Tensor& x, const Tensor& y) {
  const auto of_type = [&]<class T>(TypeTag<T>) {
    switch (op) {
      case Reducer::sum:
        return run<Sum>(outer, count, inner, x.data<T>(), y.data<T>());
      case Reducer::max:
        return run<Max>(outer, count, inner, x.data<T>(), y.data<T>());
      case Reducer::min:
        return run<Min>(outer, count, inner, x.data<T>(), y.data<T>());
    }
  };
  if (x.dtype() == DType::bf16) return of_type(TypeTag<bfloat16>{});
  visit_numeric(x.dtype(), "reduce", of_type);
}

}  // namespace bochner::cuda
