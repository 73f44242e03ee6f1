// Weights of files, which must be numbers: a model of others answers, but its answers mean nothing.
#pragma once

#include <string>

#include "engine/tensor.h"

namespace bochner {

/// An Error that begins with `file` if a number of the tensor `name` is infinite or none. The tensor is contiguous and
/// lies on the CPU. Other types than floating ones are always good.
void require_finite(const Tensor& tensor, const std::string& name, const std::string& file);

}  // namespace bochner
