#include "engine/ops/depthwise_convolution.h"

#include "engine/bf16.h"
#include "engine/cuda/parts/launch.h"
#include "engine/math.h"

namespace bochner::cuda {
namespace {

/// A thread for each number of y: threads beside each other read numbers beside each other.
template <class S>
struct Convolve {
  using T = ComputeType<S>;
  ConvolutionSizes sizes;
  bool back;
  const S* x;
  const T* taps;
  S* y;

  BOCHNER_DEVICE void operator()(int64_t at) const {
    const int64_t row = at / sizes.dim;
    const int64_t i = row % sizes.length;
    const T* const w = taps + row / sizes.length % sizes.heads * sizes.width;
    const int64_t half = sizes.width / 2;
    T sum = 0;
    for (int64_t t = 0; t < sizes.width; ++t) {
      const int64_t shift = t - half;
      if (i + shift < 0 || i + shift >= sizes.length) continue;
      sum = math::fma(w[back ? sizes.width - 1 - t : t], static_cast<T>(x[at + shift * sizes.dim]), sum);
    }
    y[at] = static_cast<S>(sum);
  }
};

/// A team for each tap, which adds in f64.
template <class S>
struct Correlate {
  using T = ComputeType<S>;
  ConvolutionSizes sizes;
  const S* x;
  const S* g;
  T* taps;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t h = team.index() / sizes.width;
    const int64_t shift = team.index() % sizes.width - sizes.width / 2;
    const int64_t each = sizes.length * sizes.dim;
    double sum = 0;
    for (int64_t n = team.rank(); n < sizes.batch * each; n += team.size()) {
      const int64_t i = n % each / sizes.dim;
      if (i + shift < 0 || i + shift >= sizes.length) continue;
      const int64_t at = (n / each * sizes.heads + h) * each + n % each;
      sum +=
          static_cast<double>(static_cast<T>(g[at])) * static_cast<double>(static_cast<T>(x[at + shift * sizes.dim]));
    }
    sum = team.sum(sum);
    if (team.rank() == 0) taps[team.index()] = static_cast<T>(sum);
  }
};

}  // namespace

void depthwise_convolution(const ConvolutionSizes& sizes, bool back, const Tensor& x, const Tensor& taps,
                           const Tensor& y) {
  visit_stored(x.dtype(), "depthwise_convolution", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    launch_threads(x.size(), Convolve<S>{sizes, back, x.data<S>(), taps.data<T>(), y.data<S>()});
  });
}

void depthwise_convolution_taps(const ConvolutionSizes& sizes, const Tensor& x, const Tensor& g, const Tensor& taps) {
  visit_stored(x.dtype(), "depthwise_convolution_taps", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    launch_blocks<256>(taps.size(), 0, Correlate<S>{sizes, x.data<S>(), g.data<S>(), taps.data<T>()});
  });
}

}  // namespace bochner::cuda
