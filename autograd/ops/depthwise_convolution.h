// Convolution of Variables along a sequence, one filter a head; equations are in engine/ops/depthwise_convolution.h.
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// x (batch, heads, length, dim) with taps (heads, width); `back` is the transpose.
Variable depthwise_convolution(const Variable& x, const Variable& taps, bool back = false);
/// Its derivative by the taps, for a gradient g of its value.
Variable depthwise_convolution_taps(const Variable& x, const Variable& g, int64_t width);

}  // namespace bochner
