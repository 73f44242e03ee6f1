#include "engine/cpu/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <new>

#include "engine/math.h"
#include "engine/sanitizer.h"

namespace bochner::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLargestReservation = size_t{1} << 44;
constexpr size_t kSmallestReservation = size_t{1} << 30;

// Under AddressSanitizer every tensor gets its own block, so that writes outside it are detected.
constexpr bool kSystemMemory = BOCHNER_ADDRESS_SANITIZER;

/// The block size for a request; blocks are not empty.
size_t block_bytes(size_t bytes) { return round_up(std::max<size_t>(bytes, 1), kAlignment); }

/// The bytes that the system can still give without swapping.
size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  size_t kilobytes = 0;
  std::string unit;
  while (file >> key >> kilobytes >> unit) {
    if (key == "MemAvailable:") return kilobytes * 1024;
  }
  return SIZE_MAX;
}

}  // namespace

Arena::Arena() {
  if (kSystemMemory) return;
  for (size_t size = kLargestReservation; size >= kSmallestReservation; size /= 2) {
    void* place = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) continue;
    const auto address = reinterpret_cast<uintptr_t>(place);
    const uintptr_t aligned = round_up(address, kHugePage);
    base_ = reinterpret_cast<std::byte*>(aligned);
    reserved_ = size - (aligned - address);
    madvise(base_, reserved_, MADV_HUGEPAGE);
    return;
  }
  fail("memory: the system refused to reserve {} bytes of addresses; is there a limit (ulimit -v)?",
       kSmallestReservation);
}

void Arena::grow(size_t bytes) {
  // A free block that ends at the frontier, if there is one, becomes part of the new block.
  size_t tail = 0;
  if (!free_.empty()) {
    const auto last = std::prev(free_.end());
    if (last->first + last->second == touched_) tail = last->second;
  }
  const size_t more = round_up(bytes - tail, kHugePage);
  const size_t available = more > 16 * kHugePage ? available_memory() : SIZE_MAX;
  if (more > available || touched_ + more > reserved_) {
    throw OutOfMemory(fmt::format("memory: out of memory on cpu: {} bytes asked for, {} in use, {} free", bytes,
                                  stats_.current_bytes, available));
  }
  const Offset frontier = touched_;
  touched_ += more;
  ++stats_.system_allocations;
  stats_.reserved_bytes = static_cast<int64_t>(touched_);
  add_free(frontier, more);
}

void Arena::add_free(Offset offset, size_t bytes) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    auto absorbed = next++;
    remove_free(absorbed);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      remove_free(previous);
    }
  }
  free_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void Arena::remove_free(std::map<Offset, size_t>::iterator block) {
  by_size_.erase({block->second, block->first});
  free_.erase(block);
}

void* Arena::allocate(size_t asked) {
  const size_t bytes = block_bytes(asked);
  const std::scoped_lock lock(mutex_);
  void* result = nullptr;
  if (kSystemMemory) {
    result = std::aligned_alloc(kAlignment, bytes);
    if (result == nullptr) throw OutOfMemory(fmt::format("memory: out of memory on cpu: {} bytes asked for", bytes));
    ++stats_.system_allocations;
  } else {
    auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) {
      grow(bytes);
      fit = by_size_.lower_bound({bytes, 0});
    }
    const auto [size, offset] = *fit;
    remove_free(free_.find(offset));
    if (size > bytes) add_free(offset + bytes, size - bytes);
    result = base_ + offset;
  }
  stats_.current_bytes += static_cast<int64_t>(bytes);
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.current_bytes);
  return result;
}

void Arena::release(void* pointer, size_t asked) {
  const size_t bytes = block_bytes(asked);
  const std::scoped_lock lock(mutex_);
  stats_.current_bytes -= static_cast<int64_t>(bytes);
  if (kSystemMemory) {
    std::free(pointer);
  } else {
    add_free(static_cast<size_t>(static_cast<std::byte*>(pointer) - base_), bytes);
  }
}

MemoryStats Arena::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

void Arena::reset_peak() {
  const std::scoped_lock lock(mutex_);
  stats_.peak_bytes = stats_.current_bytes;
}

}  // namespace bochner::cpu
