#include "engine/ops/softmax.h"

#include <algorithm>
#include <limits>

#include "engine/cpu/parts/lanes.h"
#include "engine/math.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

template <class T>
T maximum(const T* x, int64_t count) {
  T top = -std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < count; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

int64_t grain(int64_t columns) { return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, columns)); }

}  // namespace

void softmax(int64_t rows, int64_t columns, const Tensor& x, const Tensor& y) {
  visit_floating(x.dtype(), "softmax", [&]<class T>(TypeTag<T>) {
    parallel_for(rows, grain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.data<T>() + row * columns;
        T* to = y.data<T>() + row * columns;
        const T top = maximum(from, columns);
        if (top == -std::numeric_limits<T>::infinity()) {
          std::fill(to, to + columns, T(0));
          continue;
        }
        for (int64_t i = 0; i < columns; ++i) to[i] = math::exp(from[i] - top);
        const T scale = T(1) / lane_sum<T>(columns, [&](int64_t i) { return to[i]; });
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
        const T top = maximum(from, columns);
        const bool infinite = top - top != T(0);
        y.data<T>()[row] =
            infinite ? top : top + math::log(lane_sum<T>(columns, [&](int64_t i) { return math::exp(from[i] - top); }));
      }
    });
  });
}

}  // namespace bochner::cpu
