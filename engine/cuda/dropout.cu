#include "engine/cuda/dropout.h"

#include "engine/cuda/philox.h"

namespace bochner::cuda {
namespace {

/// y = x factor [+ residual], eight elements to each thread; x and residual may be null: 1 and 0.
template <class T>
struct Drop {
  typename FactorReader<T>::Params drop;
  int64_t count;
  const T* x;
  const T* residual;
  T* y;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t begin = t * kFactors;
    const int64_t end = begin + kFactors < count ? begin + kFactors : count;
    FactorReader<T> factor(drop, begin);
#pragma unroll
    for (int j = 0; j < kFactors; ++j) {
      const int64_t i = begin + j;
      if (i >= end) break;
      const T f = factor(i);
      const T value = x == nullptr ? T(1) : x[i];
      y[i] = residual == nullptr ? value * f : math::fma(value, f, residual[i]);
    }
  }
};

void run(const Dropout& drop, const Tensor* x, const Tensor* residual, const Tensor& y) {
  visit_floating(y.dtype(), "dropout", [&]<class T>(TypeTag<T>) {
    launch_threads((y.size() + kFactors - 1) / kFactors,
                   Drop<T>{typename FactorReader<T>::Params(drop), y.size(), x == nullptr ? nullptr : x->data<T>(),
                           residual == nullptr ? nullptr : residual->data<T>(), y.data<T>()});
  });
}

}  // namespace

void dropout(const Tensor& x, const Dropout& drop, const Tensor& y) { run(drop, &x, nullptr, y); }

void add_dropout(const Tensor& x, const Tensor& residual, const Dropout& drop, const Tensor& y) {
  run(drop, &x, &residual, y);
}

void dropout_mask(const Dropout& drop, const Tensor& y) { run(drop, nullptr, nullptr, y); }

}  // namespace bochner::cuda
