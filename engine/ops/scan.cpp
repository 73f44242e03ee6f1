#include "engine/ops/scan.h"

#include "engine/kernel.h"

namespace bochner {

// x and y (outer, count, inner), contiguous; sums run along the middle axis.
BOCHNER_KERNEL(kCumsum, "cumsum", cumsum, int64_t outer, int64_t count, int64_t inner, bool exclusive, bool reverse,
               const Tensor& x, const Tensor& y);

Tensor cumsum(const Tensor& x, int axis, ScanOptions options) {
  axis = x.shape().checked(axis);
  const Tensor y = Tensor::empty_like(x);
  int64_t outer = 1;
  for (int a = 0; a < axis; ++a) outer *= x.size(a);
  visit_numeric(x.dtype(), "cumsum", [](auto) {});
  if (x.size() > 0) {
    const int64_t inner = x.size() / (outer * x.size(axis));
    kCumsum(x.device(), outer, x.size(axis), inner, options.exclusive, options.reverse, x.contiguous(), y);
  }
  return y;
}

}  // namespace bochner
