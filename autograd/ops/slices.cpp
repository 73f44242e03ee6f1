#include "autograd/ops/slices.h"

#include "autograd/tape.h"

namespace bochner {

// y = sum_k x_k:  dx_k = sum_j g_j
Variable sum_over_slices(const Variable& x, SequenceSlice& slice) {
  return record("sum_over_slices", slice.sum(x.value()), {&x},
                [&slice](const Variable& g) { return Gradients{sum_over_slices(g, slice)}; });
}

}  // namespace bochner
