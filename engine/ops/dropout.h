// Dropout (Srivastava et al., 2014), scaled so that the mean stays:  y_i = x_i / (1 - p) where word i >= p 2^32, else
// 0. The mask is drawn again from its place in the stream whenever it is needed, never stored.
#pragma once

#include "engine/random.h"
#include "engine/tensor.h"

namespace bochner {

/// y = mask(place) * x / (1 - p), 0 <= p < 1; x is read in row-major order. Linear in x, so it is its own backward.
Tensor dropout(const Tensor& x, double p, const Generator& place);

}  // namespace bochner
