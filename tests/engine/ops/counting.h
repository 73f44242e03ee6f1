// Tensors whose elements tell their positions, for tests that move elements.
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// 0, 1, ... in the order of memory.
inline Tensor counting(const Shape& shape, DType dtype = DType::f32) {
  return Tensor::arange(shape.size()).cast(dtype).view(shape);
}

}  // namespace bochner
