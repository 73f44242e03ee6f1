#pragma once

#include "engine/tensor.h"

namespace bochner::cuda {

// All contiguous: table, dtable (entries, dim), ids i64 (count), y, g (count, dim). An id outside the table is
// reported, becomes an Error at the next read by the host, and gives zeros.

/// Adds positions (length, dim) in turn, place i getting row i mod length, if defined.
void embedding(const Tensor& table, const Tensor& ids, const Tensor& positions, const Tensor& y);
void embedding_backward(const Tensor& g, const Tensor& ids, int64_t padding, const Tensor& dtable);

}  // namespace bochner::cuda
