#include "engine/ops/softmax.h"

#include <limits>

#include "engine/cuda/parts/launch.h"
#include "engine/math.h"

namespace bochner::cuda {
namespace {

template <class T, class Team>
BOCHNER_DEVICE T maximum(const Team& team, const T* x, int64_t count) {
  T top = -std::numeric_limits<T>::infinity();
  for (int64_t i = team.rank(); i < count; i += team.size()) top = x[i] > top ? x[i] : top;
  return team.max(top);
}

template <class T, class Team>
BOCHNER_DEVICE T sum_of_exponentials(const Team& team, const T* x, int64_t count, T top) {
  T sum = 0;
  for (int64_t i = team.rank(); i < count; i += team.size()) sum += math::exp(x[i] - top);
  return team.sum(sum);
}

template <class T>
struct Forward {
  int64_t columns;
  const T* x;
  T* y;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const T* from = x + team.index() * columns;
    T* to = y + team.index() * columns;
    const T top = maximum(team, from, columns);
    const bool hidden = top == -std::numeric_limits<T>::infinity();
    const T scale = hidden ? T(0) : T(1) / sum_of_exponentials(team, from, columns, top);
    for (int64_t i = team.rank(); i < columns; i += team.size()) {
      to[i] = hidden ? T(0) : math::exp(from[i] - top) * scale;
    }
  }
};

template <class T>
struct Backward {
  int64_t columns;
  const T* g;
  const T* y;
  T* dx;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t at = team.index() * columns;
    T dot = 0;
    for (int64_t i = team.rank(); i < columns; i += team.size()) dot += g[at + i] * y[at + i];
    dot = team.sum(dot);
    for (int64_t i = team.rank(); i < columns; i += team.size()) dx[at + i] = y[at + i] * (g[at + i] - dot);
  }
};

template <class T>
struct LogSumExp {
  int64_t columns;
  const T* x;
  T* y;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const T* from = x + team.index() * columns;
    const T top = maximum(team, from, columns);
    const bool infinite = top - top != T(0);
    const T result = infinite ? top : top + math::log(sum_of_exponentials(team, from, columns, top));
    if (team.rank() == 0) y[team.index()] = result;
  }
};

}  // namespace

void softmax(int64_t rows, int64_t columns, const Tensor& x, const Tensor& y) {
  visit_floating(x.dtype(), "softmax", [&]<class T>(TypeTag<T>) {
    launch_rows(rows, columns, Forward<T>{columns, x.data<T>(), y.data<T>()});
  });
}

void softmax_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& y, const Tensor& dx) {
  visit_floating(y.dtype(), "softmax", [&]<class T>(TypeTag<T>) {
    launch_rows(rows, columns, Backward<T>{columns, g.data<T>(), y.data<T>(), dx.data<T>()});
  });
}

void logsumexp(int64_t rows, int64_t columns, const Tensor& x, const Tensor& y) {
  visit_floating(x.dtype(), "logsumexp", [&]<class T>(TypeTag<T>) {
    launch_rows(rows, columns, LogSumExp<T>{columns, x.data<T>(), y.data<T>()});
  });
}

}  // namespace bochner::cuda
