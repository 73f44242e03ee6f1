#include "engine/ops/copy.h"

#include "engine/kernel.h"
#include "engine/loop.h"

namespace bochner {

#if defined(BOCHNER_CUDA)
namespace cuda {
/// Copies between tensors of one shape on two devices, at least one of them a card; any strides and types. Waits if
/// `to` is on the CPU.
void copy_between_devices(const Tensor& from, const Tensor& to);
}  // namespace cuda
#endif

// Operands: to, from.
BOCHNER_KERNEL(copy_kernel, "copy", copy, const Loop& loop, DType to, DType from);
BOCHNER_KERNEL(fill_kernel, "fill", fill, const Loop& loop, DType to, double value);
BOCHNER_KERNEL(count_up_kernel, "count_up", count_up, int64_t* to, int64_t count);

void copy(const Tensor& from, const Tensor& to) {
  if (!(from.shape() == to.shape())) fail("copy: {} does not fit {}", from.shape().str(), to.shape().str());
  to.overwritten();
  if (from.device() == to.device()) {
    copy_kernel(to.device(), make_loop({&to, &from}), to.dtype(), from.dtype());
    return;
  }
#if defined(BOCHNER_CUDA)
  cuda::copy_between_devices(from, to);
#else
  fail("copy: from {} to {}: this build has no CUDA backend", from.device().str(), to.device().str());
#endif
}

void fill(const Tensor& to, double value) {
  to.overwritten();
  fill_kernel(to.device(), make_loop({&to}), to.dtype(), value);
}

void count_up(const Tensor& to) {
  BOCHNER_ASSERT(to.is_contiguous());
  to.overwritten();
  count_up_kernel(to.device(), to.data<int64_t>(), to.size());
}

}  // namespace bochner
