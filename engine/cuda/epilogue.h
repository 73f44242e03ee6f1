// What stands around the products of the fused layers: bias, activation, dropout and residual in one pass, and the
// masked gradient with its column sums.
#pragma once

#include "engine/cuda/activation.h"
#include "engine/cuda/blas.h"
#include "engine/cuda/column_sum.h"
#include "engine/cuda/philox.h"

namespace bochner::cuda {

/// to = act(u + b) m [+ residual], eight elements to each thread; `first` is the number of the first element.
template <class T, class Act>
struct Epilogue {
  Act act;
  bool drops;
  typename FactorReader<T>::Params drop;
  int64_t first, count, columns;
  const T *u, *bias, *residual;
  T* to;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t begin = t * kFactors;
    const int64_t end = begin + kFactors < count ? begin + kFactors : count;
    FactorReader<T> factor(drop, first + begin);
    for (int64_t i = begin; i < end; ++i) {
      T value = act.forward(u[i] + bias[i % columns]);
      if (drops) value *= factor(first + i);
      to[i] = residual == nullptr ? value : value + residual[i];
    }
  }
};

/// e = g m, or g step(y) scale where y is not null, written where e is not null, and its column sums.
template <class T>
struct Masked {
  bool drops;
  typename FactorReader<T>::Params drop;
  int64_t first, columns;
  const T* g;
  T* e;
  const T* y = nullptr;
  T scale = 1;

  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, T* sums) const {
    const int64_t at = row * columns + column;
    T value = g[at];
    if (y != nullptr) {
      value = y[at] > T(0) ? value * scale : T(0);
    } else if (drops) {
      value *= FactorReader<T>(drop, first + at)(first + at);
    }
    if (e != nullptr) e[at] = value;
    sums[0] += value;
  }
};

/// C (m x n) = op(A) op(B) [+ C], all contiguous.
inline void multiply(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Tensor& c, bool adds) {
  const int64_t k = transpose_a ? a.size(0) : a.size(1);
  gemm(c.dtype(), {transpose_a, transpose_b, c.size(0), c.size(1), k, a.raw(), a.size(1), 0, b.raw(), b.size(1), 0,
                   c.raw(), c.size(1), 0, 1, 1, adds ? 1.0 : 0.0});
}

template <class T, class Act>
void epilogue(Act act, const Dropout& drop, int64_t first, const Tensor& u, const Tensor& bias, const Tensor& residual,
              const Tensor& to) {
  launch_threads(
      (u.size() + kFactors - 1) / kFactors,
      Epilogue<T, Act>{act, drop.active(), typename FactorReader<T>::Params(drop), first, u.size(), u.size(1),
                       u.data<T>(), bias.data<T>(), residual.defined() ? residual.data<T>() : nullptr, to.data<T>()});
}

}  // namespace bochner::cuda
