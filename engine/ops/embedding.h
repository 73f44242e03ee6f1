// Rows of a table by index, and their gradient.
#pragma once

#include <optional>

#include "engine/tensor.h"

namespace bochner {

/// y[..., :] = table[ids[...], :]:  table (entries, dim), ids i64 or i32 (...), y (..., dim). An id outside the table
/// is an Error. f32, f64; y has the type of the table or, if `stored` says so for a table of f32, is rounded to bf16.
Tensor embedding(const Tensor& table, const Tensor& ids, std::optional<DType> stored = {});
/// y[b, i, :] = table[ids[b, i], :] + positions[i, :], rounded once:  ids (batch, length), positions (places, dim),
/// length <= places.
Tensor embedding_at(const Tensor& table, const Tensor& ids, const Tensor& positions, std::optional<DType> stored = {});

/// dtable[e, :] = sum of g over the places whose id is e, in an order that depends on the ids alone. Places with the
/// id `padding`, if any, add nothing. g (..., dim), ids (...). The gradient of a bf16 y is summed in f32.
Tensor embedding_backward(const Tensor& g, const Tensor& ids, int64_t entries, int64_t padding = -1);
/// dpositions[i, :] = sum_b g[b, i, :], and 0 in the remaining rows up to `places`; f32 if g is bf16. On the CPU slices
/// of the sequences have the same sums bit for bit. g (batch, length, dim)
Tensor positions_backward(const Tensor& g, int64_t places);

}  // namespace bochner
