// Views and rearrangements of Variables; contracts are in engine/tensor.h. autograd/ops/join.h joins Variables.
#pragma once

#include "autograd/ops/join.h"
#include "autograd/variable.h"

namespace bochner {

Variable reshape(const Variable& x, const Shape& shape);
Variable permute(const Variable& x, const Dims& axes);
Variable transpose(const Variable& x, int a, int b);
Variable slice(const Variable& x, int axis, int64_t begin, int64_t end, int64_t step = 1);
Variable select(const Variable& x, int axis, int64_t index);
Variable unsqueeze(const Variable& x, int axis);
Variable squeeze(const Variable& x, int axis);
/// The same elements in row-major order.
Variable contiguous(const Variable& x);
/// Converted to another floating type; the gradient is converted back.
Variable cast(const Variable& x, DType dtype);
/// x placed in zeros of `shape` at [begin, ...) of an axis, every `step`-th: the adjoint of slice.
Variable embed_slice(const Variable& x, const Shape& shape, int axis, int64_t begin, int64_t step = 1);

}  // namespace bochner
