// Weights from files, which must be finite: a model with others gives answers, but they mean nothing.
#pragma once

#include <string>

#include "engine/tensor.h"

namespace bochner {

/// An Error that begins with `file` if an element of the tensor `name` is infinite or NaN. The tensor must be
/// contiguous and on the CPU. Types that are not floating always pass.
void require_finite(const Tensor& tensor, const std::string& name, const std::string& file);

}  // namespace bochner
