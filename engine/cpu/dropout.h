#pragma once

#include "engine/ops/dropout.h"
#include "engine/tensor.h"

namespace bochner::cpu {

/// y = x factor; all contiguous, of one size.
void dropout(const Tensor& x, const Dropout& drop, const Tensor& y);
/// y = residual + x factor
void add_dropout(const Tensor& x, const Tensor& residual, const Dropout& drop, const Tensor& y);
void dropout_mask(const Dropout& drop, const Tensor& y);

}  // namespace bochner::cpu
