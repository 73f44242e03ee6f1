#include "engine/ops/gaussian.h"

#include <algorithm>

#include "engine/cpu/parts/lanes.h"
#include "engine/math.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

int64_t grain(int64_t columns) { return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, columns)); }

}  // namespace

void half_norms(int64_t rows, int64_t columns, const Tensor& x, const Tensor& half) {
  visit_floating(x.dtype(), "gaussian_kernel", [&]<class T>(TypeTag<T>) {
    parallel_for(rows, grain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.data<T>() + row * columns;
        half.data<T>()[row] = lane_sum<T>(columns, [&](int64_t i) { return from[i] * from[i]; }) / 2;
      }
    });
  });
}

void gaussian_kernel(const Tensor& half_x, const Tensor& half_y, const Tensor& mask, const Tensor& C) {
  const int64_t heads = C.size(1);
  const int64_t rows = C.size(2);
  const int64_t columns = C.size(3);
  visit_floating(C.dtype(), "gaussian_kernel", [&]<class T>(TypeTag<T>) {
    parallel_for(C.size() / columns, grain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = C.data<T>() + row * columns;
        const T own = half_x.data<T>()[row];
        const T* half = half_y.data<T>() + row / rows * columns;
#pragma omp simd
        for (int64_t j = 0; j < columns; ++j) {
          const T both = own + half[j];
          const T exponent = to[j] - both;
          const T value = math::exp(exponent > T(0) ? T(0) : exponent);  // NaN is kept
          to[j] = both >= T(1e30) ? T(0) : value;
        }
        if (!mask.defined()) continue;
        const bool* real = mask.data<bool>() + row / rows / heads * columns;
        for (int64_t j = 0; j < columns; ++j) to[j] = real[j] ? to[j] : T(0);
      }
    });
  });
}

void gaussian_kernel_backward(int64_t rows, int64_t columns, const Tensor& dC, const Tensor& C, const Tensor& W,
                              const Tensor& sums) {
  visit_floating(C.dtype(), "gaussian_kernel", [&]<class T>(TypeTag<T>) {
    parallel_for(rows, grain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* gradient = dC.data<T>() + row * columns;
        const T* value = C.data<T>() + row * columns;
        T* to = W.data<T>() + row * columns;
        for (int64_t j = 0; j < columns; ++j) to[j] = value[j] == T(0) ? T(0) : gradient[j] * value[j];
        sums.data<T>()[row] = lane_sum<T>(columns, [&](int64_t j) { return to[j]; });
      }
    });
  });
}

void subtract_rows(int64_t rows, int64_t columns, const Tensor& weights, const Tensor& x, const Tensor& to) {
  visit_floating(x.dtype(), "gaussian_kernel", [&]<class T>(TypeTag<T>) {
    parallel_for(rows, grain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T weight = -weights.data<T>()[row];
        const T* from = x.data<T>() + row * columns;
        T* into = to.data<T>() + row * columns;
        for (int64_t i = 0; i < columns; ++i) into[i] = math::fma(weight, from[i], into[i]);
      }
    });
  });
}

}  // namespace bochner::cpu
