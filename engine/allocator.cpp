#include "engine/allocator.h"

#include "engine/cpu/allocator.h"
#if defined(BOCHNER_CUDA)
#include "engine/cuda/runtime/runtime.h"
#endif

namespace bochner {

Allocator& Allocator::of(Device device) {
  if (device.is_cpu()) {
    // Never destroyed: otherwise tensors with static storage may outlive it.
    static auto& arena = *new cpu::Arena;  // NOLINT
    return arena;
  }
#if defined(BOCHNER_CUDA)
  return cuda::allocator(device.index);
#else
  fail("memory: {}: this build has no CUDA backend", device.str());
#endif
}

}  // namespace bochner
