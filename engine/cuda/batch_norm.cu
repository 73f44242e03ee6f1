// BatchNorm's part of norm.h: sums over columns, then a pass over the elements.
#include "engine/cuda/parts/norm_terms.h"
#include "engine/ops/norm.h"

namespace bochner::cuda {
namespace {

template <class T>
struct SumTerm {
  int64_t columns;
  const T* x;
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, T* sums) const { sums[0] += x[row * columns + column]; }
};
template <class T>
struct SquareTerm {
  int64_t columns;
  const T *x, *mean;
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, T* sums) const {
    const T centred = x[row * columns + column] - mean[column];
    sums[0] += centred * centred;
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

void column_moments(int64_t rows, int64_t columns, const Tensor& x, const Tensor& mean, const Tensor& variance) {
  visit_floating(x.dtype(), "batch_norm", [&]<class T>(TypeTag<T>) {
    const T count = static_cast<T>(rows);
    strip_sums<1, T>(rows, columns, SumTerm<T>{columns, x.data<T>()}, {mean.data<T>()});
    launch_threads(columns, Divide<T>{count, mean.data<T>()});
    strip_sums<1, T>(rows, columns, SquareTerm<T>{columns, x.data<T>(), mean.data<T>()}, {variance.data<T>()});
    launch_threads(columns, Divide<T>{count, variance.data<T>()});
  });
}

void batch_norm_apply(int64_t rows, int64_t columns, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                      const Tensor& mean, const Tensor& rstd, const Tensor& y) {
  visit_floating(x.dtype(), "batch_norm", [&]<class T>(TypeTag<T>) {
    launch_threads(rows * columns, BatchNormElements<T>{columns, x.data<T>(), gamma.data<T>(), beta.data<T>(),
                                                        mean.data<T>(), rstd.data<T>(), y.data<T>()});
  });
}

void batch_norm_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& x, const Tensor& gamma,
                         const Tensor& mean, const Tensor& rstd, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta) {
  visit_floating(x.dtype(), "batch_norm", [&]<class T>(TypeTag<T>) {
    strip_sums<2, T>(rows, columns,
                     GradientTerms<T, false>{columns, g.data<T>(), x.data<T>(), mean.data<T>(), rstd.data<T>()},
                     {dgamma.data<T>(), dbeta.data<T>()});
    launch_threads(
        rows * columns,
        BatchNormBackwardElements<T>{columns, T(1) / static_cast<T>(rows), g.data<T>(), x.data<T>(), gamma.data<T>(),
                                     mean.data<T>(), rstd.data<T>(), dgamma.data<T>(), dbeta.data<T>(), dx.data<T>()});
  });
}

}  // namespace bochner::cuda
