#include "engine/ops/scan.h"

#include "engine/kernel.h"

namespace bochner {

// x and y (outer, count, inner), contiguous; sums run along the middle axis.
BOCHNER_KERNEL(kCumsum, "cumsum", cumsum, int64_t outer, int64_t count, int64_t inner, bool exclusive, bool reverse,
               const Tensor& x, const Tensor& y);

Tensor cumsum(const Tensor& x, int axis, ScanOptions options) {
  axis = x.shape().checked(axis);
  const Tensor y = Tensor::empty_like(x);
  require_numeric(x.dtype(), "cumsum");
  if (x.size() > 0) {
    kCumsum(x.device(), x.shape().size(0, axis), x.size(axis), x.shape().size(axis + 1, x.rank()), options.exclusive,
            options.reverse, x.contiguous(), y);
  }
  return y;
}

}  // namespace bochner
