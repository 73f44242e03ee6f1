#pragma once

#include "engine/tensor.h"

namespace bochner::cpu {

/// All contiguous: table, dtable (entries, dim), ids (count), y, g (count, dim). Ids are checked.
void embedding(const Tensor& table, const Tensor& ids, const Tensor& y);
void embedding_backward(const Tensor& g, const Tensor& ids, const Tensor& dtable);

}  // namespace bochner::cpu
