#include "engine/ops/depthwise_convolution.h"

#include "engine/bf16.h"
#include "engine/kernel.h"

namespace bochner {

// All contiguous.
BOCHNER_KERNEL(kDepthwiseConvolution, "depthwise_convolution", depthwise_convolution, const ConvolutionSizes& sizes,
               bool back, const Tensor& x, const Tensor& taps, const Tensor& y);
BOCHNER_KERNEL(kDepthwiseConvolutionTaps, "depthwise_convolution_taps", depthwise_convolution_taps,
               const ConvolutionSizes& sizes, const Tensor& x, const Tensor& g, const Tensor& taps);

namespace {

ConvolutionSizes sizes_of(const Tensor& x, int64_t width) {
  if (x.rank() != 4) {
    fail("depthwise_convolution: x is {}; it must be (batch, heads, length, dim)", x.shape().str());
  }
  if (width < 1 || width % 2 == 0) fail("depthwise_convolution: {} taps; an odd number is needed", width);
  visit_stored(x.dtype(), "depthwise_convolution", [](auto) {});
  return {x.size(0), x.size(1), x.size(2), x.size(3), width};
}

}  // namespace

Tensor depthwise_convolution(const Tensor& x, const Tensor& taps, bool back) {
  if (taps.rank() != 2) fail("depthwise_convolution: taps are {}; they must be (heads, width)", taps.shape().str());
  const ConvolutionSizes sizes = sizes_of(x, taps.size(1));
  if (taps.size(0) != sizes.heads || taps.dtype() != compute_dtype(x.dtype()) || taps.device() != x.device()) {
    fail("depthwise_convolution: x is {}, so taps must be {} ({}, width); got {}", x.str(),
         name_of(compute_dtype(x.dtype())), sizes.heads, taps.str());
  }
  const Tensor y = Tensor::empty_like(x);
  if (x.size() == 0) return y;
  kDepthwiseConvolution(x.device(), sizes, back, x.contiguous(), taps.contiguous(), y);
  return y;
}

Tensor depthwise_convolution_taps(const Tensor& x, const Tensor& g, int64_t width) {
  const ConvolutionSizes sizes = sizes_of(x, width);
  if (!(g.shape() == x.shape()) || g.dtype() != x.dtype() || g.device() != x.device()) {
    fail("depthwise_convolution_taps: x is {}, g is {}; they must be alike", x.str(), g.str());
  }
  if (x.size() == 0) return Tensor::zeros({sizes.heads, width}, compute_dtype(x.dtype()), x.device());
  const Tensor taps = Tensor::empty({sizes.heads, width}, compute_dtype(x.dtype()), x.device());
  kDepthwiseConvolutionTaps(x.device(), sizes, x.contiguous(), g.contiguous(), taps);
  return taps;
}

}  // namespace bochner
