// Rows of a table by index; contract in engine/ops/embedding.h.
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// y[..., :] = table[ids[...], :]
Variable embedding(const Variable& table, const Tensor& ids);

}  // namespace bochner
