// Rows of a table by index; contract in engine/ops/embedding.h.
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// y[..., :] = table[ids[...], :]. The row `padding`, if any, gets no gradient.
Variable embedding(const Variable& table, const Tensor& ids, int64_t padding = -1);
/// y[b, i, :] = table[ids[b, i], :] + positions[i, :], in one pass.
/// ids (batch, length), positions (places, dim)
Variable embedding_at(const Variable& table, const Tensor& ids, const Variable& positions, int64_t padding = -1);
/// The same in plain ops.
Variable embedding_at_composed(const Variable& table, const Tensor& ids, const Variable& positions,
                               int64_t padding = -1);

}  // namespace bochner
