// BatchNorm's part of norm.h: sums over columns, then a pass over the elements.
#include "engine/cuda/parts/norm_terms.h"
#include "engine/ops/norm.h"

namespace bochner::cuda {
namespace {

template <class T>
struct SquareTerm {
  int64_t columns;
  const T *x, *mean;
  bool movable() const { return aligned(x) && aligned(mean); }
  template <int V>
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, Vector<T, V> (&sums)[1]) const {
    const Vector<T, V> value = load<V>(x + row * columns + column);
    const Vector<T, V> centre = load<V>(mean + column);
#pragma unroll
    for (int j = 0; j < V; ++j) sums[0].at[j] += (value.at[j] - centre.at[j]) * (value.at[j] - centre.at[j]);
  }
};
template <class T>
struct Divide {
  T by;
  T* x;
  BOCHNER_DEVICE void operator()(int64_t i) const { x[i] /= by; }
};

template <class T>
struct BatchNormElements {
  int64_t columns;
  const T *x, *gamma, *beta, *mean, *rstd;
  T* y;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t j = i % columns;
    y[i] = (x[i] - mean[j]) * rstd[j] * gamma[j] + beta[j];
  }
};
template <class T>
struct BatchNormBackwardElements {
  int64_t columns;
  T share;
  const T *g, *x, *gamma, *mean, *rstd, *dgamma, *dbeta;
  T* dx;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t j = i % columns;
    const T xhat = (x[i] - mean[j]) * rstd[j];
    dx[i] = (g[i] - (dbeta[j] + xhat * dgamma[j]) * share) * (rstd[j] * gamma[j]);
  }
};

}  // namespace

void column_moments(const Tensor& x, const ColumnMoments& result) {
  const int64_t rows = x.size(0);
  const int64_t columns = x.size(1);
  visit_floating(x.dtype(), "batch_norm", [&]<class T>(TypeTag<T>) {
    const T count = static_cast<T>(rows);
    strip_sums<1, T>(rows, columns, ElementTerm<T>{columns, x.data<T>()}, {result.mean.data<T>()});
    launch_threads(columns, Divide<T>{count, result.mean.data<T>()});
    strip_sums<1, T>(rows, columns, SquareTerm<T>{columns, x.data<T>(), result.mean.data<T>()},
                     {result.variance.data<T>()});
    launch_threads(columns, Divide<T>{count, result.variance.data<T>()});
  });
}

void batch_norm_apply(const Tensor& x, const NormWeights& weights, const NormStatistics& statistics, const Tensor& y) {
  const int64_t rows = x.size(0);
  const int64_t columns = x.size(1);
  visit_floating(x.dtype(), "batch_norm", [&]<class T>(TypeTag<T>) {
    launch_threads(rows * columns,
                   BatchNormElements<T>{columns, x.data<T>(), weights.gamma.data<T>(), weights.beta.data<T>(),
                                        statistics.mean.data<T>(), statistics.rstd.data<T>(), y.data<T>()});
  });
}

void batch_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const NormStatistics& statistics,
                         const NormGradients& result) {
  const int64_t rows = x.size(0);
  const int64_t columns = x.size(1);
  visit_floating(x.dtype(), "batch_norm", [&]<class T>(TypeTag<T>) {
    strip_sums<2, T>(rows, columns,
                     GradientTerms<T, false>{columns, g.data<T>(), x.data<T>(), statistics.mean.data<T>(),
                                             statistics.rstd.data<T>()},
                     {result.dgamma.data<T>(), result.dbeta.data<T>()});
    launch_threads(rows * columns,
                   BatchNormBackwardElements<T>{columns, T(1) / static_cast<T>(rows), g.data<T>(), x.data<T>(),
                                                gamma.data<T>(), statistics.mean.data<T>(), statistics.rstd.data<T>(),
                                                result.dgamma.data<T>(), result.dbeta.data<T>(), result.dx.data<T>()});
  });
}

}  // namespace bochner::cuda
