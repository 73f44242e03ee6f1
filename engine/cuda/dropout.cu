#include "engine/ops/dropout.h"

#include "engine/bf16.h"
#include "engine/cuda/parts/philox.h"

namespace bochner::cuda {
namespace {

/// y = x factor [+ residual], eight elements for each thread; x and residual may be null: 1 and 0.
template <class S>
struct Drop {
  using T = ComputeType<S>;
  typename FactorReader<T>::Params drop;
  int64_t count;
  const S* x;
  const S* residual;
  S* y;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t begin = t * kFactors;
    const int64_t end = begin + kFactors < count ? begin + kFactors : count;
    FactorReader<T> factor(drop, begin);
#pragma unroll
    for (int j = 0; j < kFactors; ++j) {
      const int64_t i = begin + j;
      if (i >= end) break;
      const T f = factor(i);
      const T value = x == nullptr ? T(1) : static_cast<T>(x[i]);
      y[i] = static_cast<S>(residual == nullptr ? value * f : math::fma(value, f, static_cast<T>(residual[i])));
    }
  }
};

void run(const Dropout& drop, const Tensor* x, const Tensor* residual, const Tensor& y) {
  visit_stored(y.dtype(), "dropout", [&]<class S>(TypeTag<S>) {
    launch_threads(
        ceil_div(y.size(), kFactors),
        Drop<S>{typename FactorReader<ComputeType<S>>::Params(drop), y.size(), x == nullptr ? nullptr : x->data<S>(),
                residual == nullptr ? nullptr : residual->data<S>(), y.data<S>()});
  });
}

}  // namespace

void dropout(const Tensor& x, const Dropout& drop, const Tensor& y) { run(drop, &x, nullptr, y); }

void add_dropout(const Tensor& x, const Tensor& residual, const Dropout& drop, const Tensor& y) {
  run(drop, &x, &residual, y);
}

void dropout_mask(const Dropout& drop, const Tensor& y) { run(drop, nullptr, nullptr, y); }

}  // namespace bochner::cuda
