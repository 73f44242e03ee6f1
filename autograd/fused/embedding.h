// Rows of a table by index; contract in engine/ops/embedding.h.
#pragma once

#include <optional>

#include "autograd/variable.h"

namespace bochner {

/// y[..., :] = table[ids[...], :]. The row `padding`, if any, gets no gradient. A table of f32 may give a y in bf16.
Variable embedding(const Variable& table, const Tensor& ids, int64_t padding = -1, std::optional<DType> stored = {});
/// y[b, i, :] = table[ids[b, i], :] + positions[i, :], in one pass.
/// ids (batch, length), positions (places, dim)
Variable embedding_at(const Variable& table, const Tensor& ids, const Variable& positions, int64_t padding = -1,
                      std::optional<DType> stored = {});
/// The same in plain ops.
Variable embedding_at_composed(const Variable& table, const Tensor& ids, const Variable& positions,
                               int64_t padding = -1, std::optional<DType> stored = {});

}  // namespace bochner
