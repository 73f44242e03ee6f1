#include "autograd/ops/scan.h"

#include "autograd/ops/unary.h"

namespace bochner {

// y_i = sum_(j <= i) x_j:  dx_j = sum_(i >= j) g_i, the same scan in the other direction
Variable cumsum(const Variable& x, int axis, ScanOptions options) {
  ScanOptions back = options;
  back.reverse = !options.reverse;
  return record("cumsum", cumsum(x.value(), axis, options), {&x},
                [axis, back](const Variable& g) { return Gradients{cumsum(g, axis, back)}; });
}

}  // namespace bochner
