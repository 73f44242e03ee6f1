// Convolution of Variables along a sequence or over an image; equations are in engine/ops/depthwise_convolution.h.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/depthwise_convolution.h"

namespace bochner {

/// x (batch, heads, length, dim) with taps (heads, rows, width, dim); `back` is the transpose.
Variable depthwise_convolution(const Variable& x, const Variable& taps, int64_t columns = 0, bool back = false);
/// Its gradient with respect to the taps, given the gradient g of its value.
Variable depthwise_convolution_taps(const Variable& x, const Variable& g, FilterSize filter, int64_t columns = 0);

}  // namespace bochner
