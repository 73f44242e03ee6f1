#include "engine/ops/depthwise_convolution.h"

#include "engine/bf16.h"
#include "engine/cuda/parts/launch.h"
#include "engine/math.h"
#include "engine/ops/reduce.h"

namespace bochner::cuda {
namespace {

constexpr int64_t kTerms = 256;  // tokens that a thread adds up

/// The position of a token in its image, and which token is at another position.
struct Pixel {
  int64_t row, column;
  BOCHNER_DEVICE Pixel(const ConvolutionSizes& sizes, int64_t i) : row(i / sizes.columns), column(i % sizes.columns) {}

  /// The token the given number of rows and columns from here, or -1 outside the image.
  BOCHNER_DEVICE int64_t beside(const ConvolutionSizes& sizes, int64_t rows, int64_t columns) const {
    const int64_t at = (row + rows) * sizes.columns + column + columns;
    const bool inside = row + rows >= 0 && column + columns >= 0 && column + columns < sizes.columns;
    return inside && at < sizes.length ? at : -1;
  }
};

/// One thread per number of y: neighbouring threads read neighbouring numbers.
template <class S>
struct Convolve {
  using T = ComputeType<S>;
  ConvolutionSizes sizes;
  bool back;
  const S* x;
  const T* taps;
  S* y;

  BOCHNER_DEVICE void operator()(int64_t at) const {
    const FilterSize filter = sizes.filter;
    const int64_t e = at % sizes.dim;
    const int64_t i = at / sizes.dim % sizes.length;
    const int64_t sequence = at / sizes.dim / sizes.length;
    const T* const w = taps + sequence % sizes.heads * filter.rows * filter.width * sizes.dim + e;
    const S* const of = x + sequence * sizes.length * sizes.dim + e;
    const Pixel pixel(sizes, i);
    T sum = 0;
    for (int64_t r = 0; r < filter.rows; ++r) {
      for (int64_t t = 0; t < filter.width; ++t) {
        const int64_t from = pixel.beside(sizes, r - filter.rows / 2, t - filter.width / 2);
        if (from < 0) continue;
        const int64_t n = r * filter.width + t;
        const int64_t tap = back ? filter.rows * filter.width - 1 - n : n;
        sum = math::fma(w[tap * sizes.dim], static_cast<T>(of[from * sizes.dim]), sum);
      }
    }
    y[at] = static_cast<S>(sum);
  }
};

/// One thread per tap and kTerms tokens: sums (chunks, heads, rows, width, dim) in f64.
template <class S>
struct Correlate {
  using T = ComputeType<S>;
  ConvolutionSizes sizes;
  const S* x;
  const S* g;
  double* sums;

  BOCHNER_DEVICE void operator()(int64_t at) const {
    const FilterSize filter = sizes.filter;
    const int64_t e = at % sizes.dim;
    const int64_t t = at / sizes.dim % filter.width;
    const int64_t r = at / sizes.dim / filter.width % filter.rows;
    const int64_t h = at / sizes.dim / filter.width / filter.rows % sizes.heads;
    const int64_t chunk = at / sizes.dim / filter.width / filter.rows / sizes.heads;
    const int64_t all = sizes.batch * sizes.length;
    const int64_t last = (chunk + 1) * kTerms < all ? (chunk + 1) * kTerms : all;
    double sum = 0;
    for (int64_t n = chunk * kTerms; n < last; ++n) {
      const int64_t i = n % sizes.length;
      const int64_t from = Pixel(sizes, i).beside(sizes, r - filter.rows / 2, t - filter.width / 2);
      if (from < 0) continue;
      const int64_t sequence = (n / sizes.length * sizes.heads + h) * sizes.length;
      sum += static_cast<double>(static_cast<T>(g[(sequence + i) * sizes.dim + e])) *
             static_cast<double>(static_cast<T>(x[(sequence + from) * sizes.dim + e]));
    }
    sums[at] = sum;
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
  const int64_t chunks = ceil_div(sizes.batch * sizes.length, kTerms);
  const Tensor sums = Tensor::empty({chunks, taps.size()}, DType::f64, x.device());
  visit_stored(x.dtype(), "depthwise_convolution_taps", [&]<class S>(TypeTag<S>) {
    launch_threads(sums.size(), Correlate<S>{sizes, x.data<S>(), g.data<S>(), sums.data<double>()});
  });
  taps.view({taps.size()}).copy_(sum(sums, {0}));
}

}  // namespace bochner::cuda
