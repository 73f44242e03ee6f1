#include "engine/cuda/runtime/runtime.h"

#include <atomic>

#include "engine/cuda/parts/platform.h"
#include "engine/error.h"
#include "engine/ops/index.h"

namespace bochner::cuda {
namespace {

std::atomic<bool> debugging{false};

/// Throws the error that a kernel of the current device reported; to be called when its work is done.
void throw_fault() {
  Fault fault;
  platform::download(platform::fault(), &fault, sizeof(fault));
  if (fault.raised == 0) return;
  platform::clear(platform::fault(), sizeof(fault));
  fail("{}; found on the device after the call: --debug-sync finds the place",
       out_of_range(fault.op, std::to_string(fault.place), fault.value, fault.bound));
}

}  // namespace

int device_count() {
  std::string reason;
  return platform::count(reason);
}

void require_device(int index) {
  std::string reason;
  const int count = platform::count(reason);
  if (count == 0) fail("device: cuda: {}", reason);
  if (index < 0 || index >= count) {
    fail("device: cuda:{}: there {} {} CUDA device{}, counted from 0", index, count == 1 ? "is" : "are", count,
         count == 1 ? "" : "s");
  }
}

std::string description() {
  std::string reason;
  return platform::count(reason) == 0 ? reason : platform::describe();
}

bool has_bf16(int index) {
  platform::use(index);
  return platform::has_bf16();
}

void begin(int index) { platform::use(index); }

void end(const char* op) {
  platform::check_launch(op);
  if (!debugging.load(std::memory_order_relaxed)) return;
  platform::synchronize();
  platform::check_launch(op);
  throw_fault();
}

void synchronize(int index) {
  platform::use(index);
  platform::synchronize();
  platform::check_launch("synchronize");
  throw_fault();
}

void set_debug_sync(bool on) { debugging = on; }
bool debug_sync() { return debugging; }

}  // namespace bochner::cuda
