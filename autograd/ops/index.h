// Elements of Variables chosen by index, and the adjoints; contracts are in engine/ops/index.h. Indices are constants.
//
//   take(table, words)                       // (vocabulary, dim), (batch, length) -> (batch, length, dim)
//   gather(x, -1, argmax(x.value(), -1, true))   // the largest element of each row, and all of its gradient
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// y[p.., i.., q..] = x[p.., index[i..], q..]
Variable take(const Variable& x, const Tensor& index, int axis = 0);
/// y[p.., index[i..], q..] += x[p.., i.., q..] into zeros of `shape`: the adjoint of take.
Variable take_add(const Shape& shape, const Tensor& index, const Variable& x, int axis = 0);
/// y[p.., i, q..] = x[p.., index[p.., i, q..], q..]; x and index broadcast along all axes but `axis`.
Variable gather(const Variable& x, int axis, const Tensor& index);
/// y[p.., index[p.., i, q..], q..] += x[p.., i, q..] into zeros of `shape`: the adjoint of gather. The index broadcasts
/// to x.
Variable scatter_add(const Shape& shape, int axis, const Tensor& index, const Variable& x);

}  // namespace bochner
