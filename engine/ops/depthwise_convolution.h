// Convolution along a sequence, one filter a head: what Nystromformer (Xiong et al., AAAI 2021, section 3) adds to its
// attention.
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// With half = (width - 1) / 2, and 0 for x outside the sequence,
///
///   y_bhie = sum_t w_ht x_bh(i + t - half)e
///
/// or, with `back`, x_bh(i - t + half)e: the transpose, so the derivative by x.
/// x and y (batch, heads, length, dim), in f32, f64 or bf16; taps w (heads, width), an odd width, f32 for an x in bf16
/// and else of its type. Sums are in the type of the taps. An Error where sizes or types do not fit.
Tensor depthwise_convolution(const Tensor& x, const Tensor& taps, bool back = false);

/// The derivative by the taps, for a gradient g of y: dw_ht = sum_bie g_bhie x_bh(i + t - half)e, (heads, width), f32
/// for an x in bf16 and else of its type. x and g have equal shapes and types; an Error otherwise.
Tensor depthwise_convolution_taps(const Tensor& x, const Tensor& g, int64_t width);

/// What its kernels are told: x and y are (batch, heads, length, dim), taps (heads, width).
struct ConvolutionSizes {
  int64_t batch, heads, length, dim, width;
};

}  // namespace bochner
