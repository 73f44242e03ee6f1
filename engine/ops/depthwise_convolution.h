// Depthwise convolution along a sequence, or over an image whose pixels are the sequence row by row, with a filter for
// each channel of a token: Nystromformer (Xiong et al., AAAI 2021, section 3) and FLatten Transformer (Han et al., ICCV
// 2023, Eq. 9) add it to their attention.
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// Token i is the pixel in row i / columns and column i % columns; with columns = 0 all tokens are one row. For a pixel
/// (a, c), and 0 for an x outside the image,
///
///   y_bh(a, c)e = sum_rt w_hrte x_bh(a + r - rows / 2, c + t - width / 2)e
///
/// or, with `back`, x_bh(a - r + rows / 2, c - t + width / 2)e: the transpose, so the derivative by x.
/// x and y (batch, heads, length, dim), in f32, f64 or bf16; taps w (heads, rows, width, dim), rows and width odd, f32
/// if x is bf16 and otherwise of its type. Sums are in the type of the taps. An Error if sizes or types do not fit.
Tensor depthwise_convolution(const Tensor& x, const Tensor& taps, int64_t columns = 0, bool back = false);

/// Rows and width of a filter.
struct FilterSize {
  int64_t rows, width;
};

/// The derivative by the taps, for a gradient g of y: dw_hrte = sum_bac g_bh(a, c)e x_bh(a + r - rows / 2, c + t -
/// width / 2)e, (heads, rows, width, dim), f32 if x is bf16 and otherwise of its type. x and g must have equal shapes
/// and types; otherwise an Error.
Tensor depthwise_convolution_taps(const Tensor& x, const Tensor& g, FilterSize filter, int64_t columns = 0);

/// The arguments of its kernels: x and y are (batch, heads, length, dim), taps (heads, rows, width, dim).
struct ConvolutionSizes {
  int64_t batch, heads, length, dim, columns;
  FilterSize filter;
};

}  // namespace bochner
