#include "engine/ops/softmax.h"

#include <algorithm>
#include <limits>

#include "engine/cpu/parts/lanes.h"
#include "engine/math.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// The shift of the exponents: the largest x, or 0 if all are -inf (or NaN, in which case the sum is NaN too).
template <class T>
T shift_of(const T* x, int64_t count) {
  T top = -kInfinity<T>;
  for (int64_t i = 0; i < count; ++i) top = x[i] > top ? x[i] : top;
  return top == -kInfinity<T> ? T(0) : top;
}

int64_t grain(int64_t columns) { return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, columns)); }

}  // namespace

void softmax(int64_t rows, int64_t columns, const Tensor& x, const Tensor& y) {
  visit_floating(x.dtype(), "softmax", [&]<class T>(TypeTag<T>) {
    parallel_for(rows, grain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.data<T>() + row * columns;
        T* to = y.data<T>() + row * columns;
        const T shift = shift_of(from, columns);
        for (int64_t i = 0; i < columns; ++i) to[i] = math::exp(from[i] - shift);
        const T total = lane_sum<T>(columns, [&](int64_t i) { return to[i]; });
        const T scale = total == T(0) ? T(0) : T(1) / total;
        for (int64_t i = 0; i < columns; ++i) to[i] *= scale;
      }
    });
  });
}

void softmax_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& y, const Tensor& dx) {
  visit_floating(y.dtype(), "softmax", [&]<class T>(TypeTag<T>) {
    parallel_for(rows, grain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* gradient = g.data<T>() + row * columns;
        const T* value = y.data<T>() + row * columns;
        T* to = dx.data<T>() + row * columns;
        const T dot = lane_sum<T>(columns, [&](int64_t i) { return gradient[i] * value[i]; });
        for (int64_t i = 0; i < columns; ++i) to[i] = value[i] * (gradient[i] - dot);
      }
    });
  });
}

void logsumexp(int64_t rows, int64_t columns, const Tensor& x, const Tensor& y) {
  visit_floating(x.dtype(), "logsumexp", [&]<class T>(TypeTag<T>) {
    parallel_for(rows, grain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.data<T>() + row * columns;
        const T shift = shift_of(from, columns);
        // 1 for the largest itself, even if it is inf.
        const T total =
            lane_sum<T>(columns, [&](int64_t i) { return from[i] == shift ? T(1) : math::exp(from[i] - shift); });
        y.data<T>()[row] = total == T(0) ? -kInfinity<T> : shift + math::log(total);
      }
    });
  });
}

}  // namespace bochner::cpu
