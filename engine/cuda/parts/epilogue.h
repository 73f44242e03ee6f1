// The passes around the products of the fused layers: bias, activation, dropout and residual in one, and the masked
// gradient with its column sums.
#pragma once

#include "engine/bf16.h"
#include "engine/cuda/parts/activation.h"
#include "engine/cuda/parts/blas.h"
#include "engine/cuda/parts/column_sum.h"
#include "engine/cuda/parts/philox.h"

namespace bochner::cuda {

/// to = act(u + b) m [+ residual], eight elements for each thread; `first` is the number of the first element.
template <class S, class Act>
struct Epilogue {
  using T = ComputeType<S>;
  Act act;
  bool drops;
  typename FactorReader<T>::Params drop;
  int64_t first, count, columns;
  const S* u;
  const T* bias;
  const S* residual;
  S* to;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t begin = t * kFactors;
    const int64_t end = begin + kFactors < count ? begin + kFactors : count;
    FactorReader<T> factor(drop, first + begin);
    for (int64_t i = begin; i < end; ++i) {
      T value = act.forward(static_cast<T>(u[i]) + bias[i % columns]);
      if (drops) value *= factor(first + i);
      to[i] = static_cast<S>(residual == nullptr ? value : value + static_cast<T>(residual[i]));
    }
  }
};

/// e = g m, or g step(y) scale if y is not null, and its column sums. It is written unless e is null.
template <class S>
struct Masked {
  using T = ComputeType<S>;
  bool drops;
  typename FactorReader<T>::Params drop;
  int64_t first, columns;
  const S* g;
  S* e;
  const S* y = nullptr;
  T scale = 1;

  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, T* sums) const {
    const int64_t at = row * columns + column;
    auto value = static_cast<T>(g[at]);
    if (y != nullptr) {
      value = static_cast<T>(y[at]) > T(0) ? value * scale : T(0);
    } else if (drops) {
      value *= FactorReader<T>(drop, first + at)(first + at);
    }
    if (e != nullptr) e[at] = static_cast<S>(value);
    sums[0] += value;
  }
};

/// C (m x n) = op(A) op(B) [+ C], all contiguous; C may be wider than the factors.
inline void multiply(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Tensor& c, bool adds) {
  const int64_t k = transpose_a ? a.size(0) : a.size(1);
  gemm(a.dtype(), c.dtype(),
       {transpose_a, transpose_b, c.size(0), c.size(1), k, a.raw(), a.size(1), 0, b.raw(), b.size(1), 0, c.raw(),
        c.size(1), 0, 1, 1, adds ? 1.0 : 0.0});
}

template <class S, class Act>
void epilogue(Act act, const Dropout& drop, int64_t first, const Tensor& u, const Tensor& bias, const Tensor& residual,
              const Tensor& to) {
  launch_threads(ceil_div(u.size(), kFactors),
                 Epilogue<S, Act>{act, drop.active(), typename FactorReader<ComputeType<S>>::Params(drop), first,
                                  u.size(), u.size(1), u.data<S>(), bias.data<ComputeType<S>>(),
                                  residual.defined() ? residual.data<S>() : nullptr, to.data<S>()});
}

}  // namespace bochner::cuda
