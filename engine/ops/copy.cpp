#include "engine/ops/copy.h"

#include "engine/cpu/copy.h"
#include "engine/cuda/copy.h"
#include "engine/kernel.h"
#include "engine/loop.h"

namespace bochner {
namespace {

const Kernel copy_kernel{"copy", &cpu::copy, CUDA_KERNEL(copy)};
const Kernel fill_kernel{"fill", &cpu::fill, CUDA_KERNEL(fill)};

}  // namespace

void copy(const Tensor& from, const Tensor& to) {
  if (!(from.shape() == to.shape())) fail("copy: {} does not fit {}", from.shape().str(), to.shape().str());
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

void fill(const Tensor& to, double value) { fill_kernel(to.device(), make_loop({&to}), to.dtype(), value); }

}  // namespace bochner
