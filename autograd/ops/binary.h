// Elementwise functions of several Variables, with broadcasting: gradients are summed back to each input's shape.
#pragma once

#include "autograd/ops/unary.h"
#include "engine/ops/binary.h"

namespace bochner {

Variable operator+(const Variable& a, const Variable& b);
Variable operator-(const Variable& a, const Variable& b);
Variable operator*(const Variable& a, const Variable& b);
Variable operator/(const Variable& a, const Variable& b);
/// a^b for a > 0
Variable pow(const Variable& a, const Variable& b);
/// If both are equal, each receives half of the gradient.
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);
/// A number takes the type of the Variable that it is combined with.
Variable maximum(const Variable& a, double b);
Variable minimum(const Variable& a, double b);
/// a where the condition is true, b elsewhere
Variable where(const Tensor& condition, const Variable& a, const Variable& b);
Variable where(const Tensor& condition, const Variable& a, double b);
Variable where(const Tensor& condition, double a, const Variable& b);
/// x summed to `shape`, which broadcasts to the shape of x.
Variable sum_to(const Variable& x, const Shape& shape);
/// x repeated to `shape`; its gradient is sum_to.
Variable expand(const Variable& x, const Shape& shape);

}  // namespace bochner
