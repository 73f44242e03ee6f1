#include "engine/ops/depthwise_convolution.h"

#include "engine/bf16.h"
#include "engine/kernel.h"
#include "engine/work.h"

namespace bochner {

// All contiguous.
BOCHNER_KERNEL(kDepthwiseConvolution, "depthwise_convolution", depthwise_convolution, const ConvolutionSizes& sizes,
               bool back, const Tensor& x, const Tensor& taps, const Tensor& y);
BOCHNER_KERNEL(kDepthwiseConvolutionTaps, "depthwise_convolution_taps", depthwise_convolution_taps,
               const ConvolutionSizes& sizes, const Tensor& x, const Tensor& g, const Tensor& taps);

namespace {

ConvolutionSizes sizes_of(const Tensor& x, FilterSize filter, int64_t columns) {
  if (x.rank() != 4) {
    fail("depthwise_convolution: x is {}; it must be (batch, heads, length, dim)", x.shape().str());
  }
  if (filter.rows < 1 || filter.width < 1 || filter.rows % 2 == 0 || filter.width % 2 == 0) {
    fail("depthwise_convolution: {} x {} taps; odd numbers are needed", filter.rows, filter.width);
  }
  if (columns < 0) fail("depthwise_convolution: {} columns; at least 0 are needed", columns);
  require_stored(x.dtype(), "depthwise_convolution");
  return {x.size(0), x.size(1), x.size(2), x.size(3), columns == 0 ? x.size(2) : columns, filter};
}

double products_of(const ConvolutionSizes& sizes) {
  return static_cast<double>(sizes.batch * sizes.heads * sizes.length * sizes.dim) *
         static_cast<double>(sizes.filter.rows * sizes.filter.width);
}

}  // namespace

Tensor depthwise_convolution(const Tensor& x, const Tensor& taps, int64_t columns, bool back) {
  if (taps.rank() != 4) {
    fail("depthwise_convolution: taps are {}; they must be (heads, rows, width, dim)", taps.shape().str());
  }
  const ConvolutionSizes sizes = sizes_of(x, {taps.size(1), taps.size(2)}, columns);
  if (taps.size(0) != sizes.heads || taps.size(3) != sizes.dim || taps.dtype() != compute_dtype(x.dtype())) {
    fail("depthwise_convolution: x is {}, so taps must be {} ({}, rows, width, {}); got {}", x.str(),
         name_of(compute_dtype(x.dtype())), sizes.heads, sizes.dim, taps.str());
  }
  const Tensor y = Tensor::empty_like(x);
  if (x.size() == 0) return y;
  work::add_flops(2 * products_of(sizes));
  kDepthwiseConvolution(x.device(), sizes, back, x.contiguous(), taps.contiguous(), y);
  return y;
}

Tensor depthwise_convolution_taps(const Tensor& x, const Tensor& g, FilterSize filter, int64_t columns) {
  const ConvolutionSizes sizes = sizes_of(x, filter, columns);
  if (!(g.shape() == x.shape()) || g.dtype() != x.dtype()) {
    fail("depthwise_convolution_taps: x is {}, g is {}; they must be alike", x.str(), g.str());
  }
  const Shape shape = {sizes.heads, filter.rows, filter.width, sizes.dim};
  if (x.size() == 0) return Tensor::zeros(shape, compute_dtype(x.dtype()), x.device());
  const Tensor taps = Tensor::empty(shape, compute_dtype(x.dtype()), x.device());
  work::add_flops(2 * products_of(sizes));
  kDepthwiseConvolutionTaps(x.device(), sizes, x.contiguous(), g.contiguous(), taps);
  return taps;
}

}  // namespace bochner
