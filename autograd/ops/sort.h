// Variables in order. The order is a constant: each value passes its gradient on to the place it came from.
// Contracts in engine/ops/sort.h. argmax has no derivative; with gather it chooses one that has.
#pragma once

#include "autograd/variable.h"

namespace bochner {

struct OrderedVariable {
  Variable values;  ///< in order
  Tensor indices;   ///< where they were, i64
};

OrderedVariable sort(const Variable& x, int axis = -1, bool descending = false);
/// The k largest elements, largest first.
OrderedVariable topk(const Variable& x, int64_t k, int axis = -1);

}  // namespace bochner
