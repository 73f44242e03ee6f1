#include "engine/card.h"

#include <atomic>

#if defined(BOCHNER_CUDA)
#include "engine/cuda/runtime/queue.h"
#include "engine/cuda/runtime/runtime.h"
#endif

namespace bochner {
namespace {

std::atomic<int> own{0};

}  // namespace

int cards() {
#if defined(BOCHNER_CUDA)
  return cuda::device_count();
#else
  return 0;
#endif
}

int own_card() { return own; }
void set_own_card(int index) { own = index; }

void* queue_of([[maybe_unused]] Device device) {
#if defined(BOCHNER_CUDA)
  if (device.is_cuda()) return cuda::queue(device.index);
#endif
  return nullptr;
}

bool is_idle([[maybe_unused]] Device device) {
#if defined(BOCHNER_CUDA)
  if (device.is_cuda()) return cuda::is_idle(device.index);
#endif
  return true;
}

void synchronize([[maybe_unused]] Device device) {
#if defined(BOCHNER_CUDA)
  if (device.is_cuda()) cuda::synchronize(device.index);
#endif
}

void set_debug_sync([[maybe_unused]] bool on) {
#if defined(BOCHNER_CUDA)
  cuda::set_debug_sync(on);
#endif
}

std::string card_description() {
  Device::named("cuda");
#if defined(BOCHNER_CUDA)
  return cuda::description();
#else
  return {};
#endif
}

bool stores_bf16([[maybe_unused]] Device device) {
#if defined(BOCHNER_CUDA)
  if (device.is_cuda()) return cuda::has_bf16(device.index);
#endif
  return true;
}

void set_card_guards([[maybe_unused]] bool on) {
#if defined(BOCHNER_CUDA)
  cuda::set_guards(on);
#endif
}

int64_t broken_card_guards() {
#if defined(BOCHNER_CUDA)
  return cuda::broken_guards();
#else
  return 0;
#endif
}

}  // namespace bochner
