#include "engine/ops/softmax.h"

#include <limits>

#include "engine/cuda/parts/held_rows.h"
#include "engine/math.h"

namespace bochner::cuda {
namespace {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// The shift of the exponents: the largest x, or 0 if all are -inf (or NaN, in which case the sum is NaN too).
template <class T>
BOCHNER_DEVICE T shift_of(T top) {
  return top == -kInfinity<T> ? T(0) : top;
}

template <class T, class Team>
BOCHNER_DEVICE T shift_of(const Team& team, const T* x, int64_t count) {
  T top = -kInfinity<T>;
  for (int64_t i = team.rank(); i < count; i += team.size()) top = x[i] > top ? x[i] : top;
  return shift_of(team.max(top));
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
    const T shift = shift_of(team, from, columns);
    T total = 0;
    for (int64_t i = team.rank(); i < columns; i += team.size()) total += math::exp(from[i] - shift);
    total = team.sum(total);
    const T scale = total == T(0) ? T(0) : T(1) / total;
    for (int64_t i = team.rank(); i < columns; i += team.size()) to[i] = math::exp(from[i] - shift) * scale;
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

/// Forward with the row in registers.
template <class T, int K>
struct HeldForward {
  int64_t columns;
  const T* x;
  T* y;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    using Row = HeldRow<T, K>;
    Row row;
    row.load(team, x + team.index() * columns);
    const T shift = shift_of(row.max(team));
    Row::each([&](int i, int j) { row.at[i].at[j] = math::exp(row.at[i].at[j] - shift); });
    const T total = row.sum(team);
    const T scale = total == T(0) ? T(0) : T(1) / total;
    Row::each([&](int i, int j) { row.at[i].at[j] *= scale; });
    row.store(team, y + team.index() * columns);
  }
};

/// Backward with the rows in registers.
template <class T, int K>
struct HeldBackward {
  int64_t columns;
  const T* g;
  const T* y;
  T* dx;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    using Row = HeldRow<T, K>;
    const int64_t at = team.index() * columns;
    Row gradient;
    Row share;
    gradient.load(team, g + at);
    share.load(team, y + at);
    T dot = 0;
    Row::each([&](int i, int j) { dot += gradient.at[i].at[j] * share.at[i].at[j]; });
    dot = team.sum(dot);
    Row::each([&](int i, int j) { share.at[i].at[j] *= gradient.at[i].at[j] - dot; });
    share.store(team, dx + at);
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
    const T shift = shift_of(team, from, columns);
    T total = 0;
    for (int64_t i = team.rank(); i < columns; i += team.size()) {
      total += from[i] == shift ? T(1) : math::exp(from[i] - shift);  // 1 for the largest itself, even if it is inf
    }
    total = team.sum(total);
    if (team.rank() != 0) return;
    y[team.index()] = total == T(0) ? -kInfinity<T> : shift + math::log(total);
  }
};

}  // namespace

void softmax(int64_t rows, int64_t columns, const Tensor& x, const Tensor& y) {
  visit_floating(x.dtype(), "softmax", [&]<class T>(TypeTag<T>) {
    const bool held =
        with_held_rows<T>(columns, {x.data<T>(), y.data<T>()}, [&]<int K>(std::integral_constant<int, K>) {
          launch_warps(rows, HeldForward<T, K>{columns, x.data<T>(), y.data<T>()});
        });
    if (!held) launch_rows(rows, columns, Forward<T>{columns, x.data<T>(), y.data<T>()});
  });
}

void softmax_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& y, const Tensor& dx) {
  visit_floating(y.dtype(), "softmax", [&]<class T>(TypeTag<T>) {
    const bool held = with_held_rows<T>(
        columns, {g.data<T>(), y.data<T>(), dx.data<T>()}, [&]<int K>(std::integral_constant<int, K>) {
          launch_warps(rows, HeldBackward<T, K>{columns, g.data<T>(), y.data<T>(), dx.data<T>()});
        });
    if (!held) launch_rows(rows, columns, Backward<T>{columns, g.data<T>(), y.data<T>(), dx.data<T>()});
  });
}

void logsumexp(int64_t rows, int64_t columns, const Tensor& x, const Tensor& y) {
  visit_floating(x.dtype(), "logsumexp", [&]<class T>(TypeTag<T>) {
    launch_rows(rows, columns, LogSumExp<T>{columns, x.data<T>(), y.data<T>()});
  });
}

}  // namespace bochner::cuda
