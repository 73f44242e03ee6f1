// Devices that are plain memory: kernels run immediately, as loops (engine/cuda/parts/launch.h). BOCHNER_EMULATED_CARDS
// (default 1) is the number of devices, BOCHNER_EMULATED_SHARED (default 99 KB, the least among cards with bf16) the
// number of bytes of shared memory of a block.
#include "engine/cuda/parts/platform.h"

#include <cstdlib>
#include <cstring>

#include <utility>
#include <vector>

#include "engine/cuda/runtime/queue.h"
#include "engine/error.h"

namespace bochner::cuda {

void* queue(int index) {
  platform::use(index);
  return nullptr;
}
bool is_idle(int) { return true; }

namespace platform {
namespace {

constexpr int kMost = 4;
thread_local int current_device = 0;
Fault faults[kMost];

using Work = std::vector<std::function<void()>>;
thread_local std::unique_ptr<Work> recorded;  ///< so far, while recording

class Replay final : public Recording {
 public:
  explicit Replay(Work work) : work_(std::move(work)) {}
  void replay() override {
    for (const auto& one : work_) one();
  }

 private:
  Work work_;
};

}  // namespace

int count(std::string& reason) {
  const char* text = std::getenv("BOCHNER_EMULATED_CARDS");
  const int cards = text == nullptr ? 1 : std::atoi(text);
  if (cards < 1) reason = "BOCHNER_EMULATED_CARDS is 0";
  return cards < 0 ? 0 : (cards > kMost ? kMost : cards);
}

std::string describe() { return "emulated on the CPU, for tests"; }

int current() { return current_device; }
void use(int index) { current_device = index; }

void* allocate(size_t bytes) {
  void* memory = std::aligned_alloc(512, bytes);
  if (memory != nullptr) std::memset(memory, 0xFF, bytes);  // NaN reveals what is read before it is written
  return memory;
}
void release(void* pointer) { std::free(pointer); }
Memory memory() { return {0, 0}; }

size_t shared_limit() {
  const char* text = std::getenv("BOCHNER_EMULATED_SHARED");
  return text == nullptr ? size_t{99} << 10 : static_cast<size_t>(std::atoll(text));
}

bool has_bf16() { return true; }

bool has_warp_groups() { return true; }

void upload(const void* from, void* to, size_t bytes) {
  BOCHNER_ASSERT(!is_recording());
  copy(from, to, bytes);
}
void upload_constant(const void* from, void* to, size_t bytes) {
  const auto* begin = static_cast<const char*>(from);
  submit([to, kept = std::vector<char>(begin, begin + bytes)] { std::memcpy(to, kept.data(), kept.size()); });
}
void download(const void* from, void* to, size_t bytes) {
  BOCHNER_ASSERT(!is_recording());
  copy(from, to, bytes);
}
void copy(const void* from, void* to, size_t bytes) {
  if (bytes > 0) submit([=] { std::memmove(to, from, bytes); });
}
void copy_peer(const void* from, int, void* to, int, size_t bytes) { copy(from, to, bytes); }
void clear(void* to, size_t bytes) { set_bytes(to, 0, bytes); }
void set_bytes(void* to, unsigned char value, size_t bytes) {
  if (bytes > 0) submit([=] { std::memset(to, value, bytes); });
}
void synchronize() { BOCHNER_ASSERT(!is_recording()); }
void check_launch(const char*) {}

Fault* fault() { return &faults[current_device]; }

void begin_recording() { recorded = std::make_unique<Work>(); }
std::unique_ptr<Recording> end_recording() { return std::make_unique<Replay>(std::move(*std::exchange(recorded, {}))); }
void abandon_recording() noexcept { recorded.reset(); }
bool is_recording() { return recorded != nullptr; }

void submit(std::function<void()> work) {
  if (is_recording()) {
    recorded->push_back(std::move(work));
  } else {
    work();
  }
}

}  // namespace platform
}  // namespace bochner::cuda
