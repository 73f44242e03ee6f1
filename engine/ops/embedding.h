// Rows of a table by index, and their gradient.
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// y[..., :] = table[ids[...], :]:  table (entries, dim), ids i64 (...), y (..., dim). An id outside the table is an
/// Error.
Tensor embedding(const Tensor& table, const Tensor& ids);
/// dtable[e, :] = sum of g over the places whose id is e, in a fixed order.
Tensor embedding_backward(const Tensor& g, const Tensor& ids, int64_t entries);

}  // namespace bochner
