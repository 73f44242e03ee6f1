// Sorting Variables. The order is a constant: each value passes its gradient to the place it came from. Contracts are
// in engine/ops/sort.h. argmax has no derivative, but gather can pick elements by its index, and these have one.
#pragma once

#include "autograd/variable.h"

namespace bochner {

struct OrderedVariable {
  Variable values;  ///< sorted
  Tensor indices;   ///< where they were, i64
};

OrderedVariable sort(const Variable& x, int axis = -1, bool descending = false);
/// The k largest elements, largest first.
OrderedVariable topk(const Variable& x, int64_t k, int axis = -1);

}  // namespace bochner
