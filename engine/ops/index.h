// Elements selected by index, and the adjoints. Indices are i64 and are checked: one outside [0, size) is an Error that
// names its place and value; negative ones do not count from the end.
//
// `take` selects whole slices (rows of an embedding), `gather` one element per place.
#pragma once

#include <string>

#include "engine/tensor.h"

namespace bochner {

/// Arguments of the kernel of scatter_add: y (outer, bins, inner) and source (outer, count, inner) are contiguous; the
/// strides are those of the index, in elements, along each axis of source; inner_stride is 0 or 1.
struct Scatter {
  int64_t outer, bins, count, inner;
  int64_t outer_stride, count_stride, inner_stride;
};

/// The error message of both backends' kernels for an index, id or label outside [0, bound).
inline std::string out_of_range(const char* op, const std::string& place, int64_t value, int64_t bound) {
  return fmt::format("{}: the index at {} is {}, outside [0, {})", op, place, value, bound);
}

/// y[p.., i.., q..] = x[p.., index[i..], q..]: index may have any shape, which replaces `axis`. Any type.
///
///   take(table, words)     // (vocabulary, dim), (batch, length) -> (batch, length, dim)
Tensor take(const Tensor& x, const Tensor& index, int axis = 0);

/// y[p.., i, q..] = x[p.., index[p.., i, q..], q..]: x and index have the same rank, and broadcast along all other
/// axes. Any type.
///
///   gather(x, -1, order)                   // (8, 100), (8, 10) -> (8, 10)
///   gather(x, 1, order.unsqueeze(-1))      // (8, 100, 64), (8, 10, 1) -> (8, 10, 64): whole rows, without copies of
///                                          // the index
Tensor gather(const Tensor& x, int axis, const Tensor& index);

/// y[p.., index[i..], q..] += source[p.., i.., q..], the adjoint of take: into zeros of `shape`, or (take_add_) into y
/// itself. f32, f64, i32, i64; into zeros also bf16, which is added up in f32. Each element of y gets its terms in
/// row-major order of the index, for any number of threads.
Tensor take_add(const Shape& shape, const Tensor& index, const Tensor& source, int axis = 0);
void take_add_(const Tensor& y, const Tensor& index, const Tensor& source, int axis = 0);

/// y[p.., index[p.., i, q..], q..] += source[p.., i, q..], the adjoint of gather: index broadcasts to source, and
/// source has the sizes of y except along `axis`. Types and order are those of take_add.
Tensor scatter_add(const Shape& shape, int axis, const Tensor& index, const Tensor& source);
void scatter_add_(const Tensor& y, int axis, const Tensor& index, const Tensor& source);

/// y[i.., c] = 1 where c = index[i..], else 0:  (...) -> (..., classes). Any type.
Tensor one_hot(const Tensor& index, int64_t classes, DType dtype = DType::f32);

}  // namespace bochner
