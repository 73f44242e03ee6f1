#include "engine/cuda/runtime/allocator.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <vector>

#include "engine/cuda/parts/platform.h"
#include "engine/cuda/runtime/runtime.h"
#include "engine/math.h"

namespace bochner::cuda {
namespace {

constexpr size_t kAlignment = 512;                   // of every block
constexpr size_t kPage = size_t{2} << 20;            // the driver gives whole pages
constexpr size_t kSmallSegment = size_t{32} << 20;   // the smallest request to the driver
constexpr size_t kLargeSegment = size_t{256} << 20;  // requests above this get a segment of their own size

constexpr unsigned char kGuard = 0xA5;
std::atomic<bool> guarding{false};
std::atomic<int64_t> broken{0};

}  // namespace

void* CachingAllocator::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool guarded = guarding;
  const auto block = take(round_up(std::max<size_t>(bytes, 1), kAlignment) + (guarded ? 2 * kAlignment : 0));
  block->second.used = true;
  stats_.current_bytes += static_cast<int64_t>(block->second.bytes);
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.current_bytes);
  if (!guarded) return block->first;
  set_guards(block, bytes);
  return block->first + kAlignment;
}

void CachingAllocator::set_guards(Blocks::iterator block, size_t bytes) {
  block->second.guarded = bytes + 1;
  const int before = platform::current();
  platform::use(device_);
  platform::set_bytes(block->first, kGuard, block->second.bytes);
  platform::set_bytes(block->first + kAlignment, 0xFF, bytes);
  platform::use(before);
}

void CachingAllocator::check_guards(Blocks::iterator block) {
  const int before = platform::current();
  platform::use(device_);
  std::vector<unsigned char> bytes(block->second.bytes);
  platform::download(block->first, bytes.data(), bytes.size());
  platform::use(before);
  const size_t end = kAlignment + block->second.guarded - 1;
  const auto harmed = [](unsigned char byte) { return byte != kGuard; };
  const auto at = [&](size_t place) { return bytes.begin() + static_cast<std::ptrdiff_t>(place); };
  if (std::any_of(bytes.begin(), at(kAlignment), harmed) || std::any_of(at(end), bytes.end(), harmed)) ++broken;
  block->second.guarded = 0;
}

CachingAllocator::Blocks::iterator CachingAllocator::take(size_t bytes) {
  const auto smallest = [&](int pool) {
    const auto found = free_.lower_bound({pool, bytes, nullptr});
    return found != free_.end() && std::get<int>(*found) == pool ? blocks_.find(std::get<char*>(*found))
                                                                 : blocks_.end();
  };
  auto block = smallest(pool_);
  if (block == blocks_.end() && pool_ != 0) block = smallest(0);
  if (block == blocks_.end()) block = grow(bytes);
  remove_free(block);
  if (block->second.bytes > bytes) {
    const Block rest{block->second.bytes - bytes, block->second.segment, false, block->second.pool};
    block->second.bytes = bytes;
    add_free(blocks_.emplace(block->first + bytes, rest).first);
  }
  block->second.pool = pool_;
  return block;
}

CachingAllocator::Blocks::iterator CachingAllocator::grow(size_t bytes) {
  platform::use(device_);
  const size_t wanted =
      bytes <= kSmallSegment / 4 ? kSmallSegment : std::max(bytes, std::min(2 * bytes, kLargeSegment));
  size_t size = round_up(wanted, kPage);
  void* memory = platform::allocate(size);
  if (memory == nullptr) {
    if (!platform::is_recording()) give_back_whole_segments();
    size = round_up(bytes, kPage);
    memory = platform::allocate(size);
  }
  if (memory == nullptr) {
    const platform::Memory left = platform::memory();
    throw OutOfMemory(fmt::format(
        "memory: cuda:{}: {} bytes are wanted, {} of {} are free, {} are in use here, and {} are held, in pieces or "
        "for recorded steps; use smaller batches",
        device_, bytes, left.free, left.total, stats_.current_bytes, stats_.reserved_bytes - stats_.current_bytes));
  }
  ++stats_.system_allocations;
  stats_.reserved_bytes += static_cast<int64_t>(size);
  auto* base = static_cast<char*>(memory);
  segments_[base] = size;
  const auto block = blocks_.emplace(base, Block{size, base, false}).first;
  add_free(block);
  return block;
}

void CachingAllocator::release(void* pointer, size_t) {
  const std::lock_guard lock(mutex_);
  auto block = blocks_.find(static_cast<char*>(pointer));
  if (block == blocks_.end()) block = blocks_.find(static_cast<char*>(pointer) - kAlignment);
  BOCHNER_ASSERT(block != blocks_.end() && block->second.used);
  if (block->second.guarded > 0) check_guards(block);
  stats_.current_bytes -= static_cast<int64_t>(block->second.bytes);
  block->second.used = false;
  add_free(join_neighbours(block));
}

/// Merges a block, which is not yet on the free list, with its free neighbours.
CachingAllocator::Blocks::iterator CachingAllocator::join_neighbours(Blocks::iterator block) {
  const auto belongs = [&](Blocks::iterator other) {
    return !other->second.used && other->second.segment == block->second.segment &&
           other->second.pool == block->second.pool;
  };
  const auto next = std::next(block);
  if (next != blocks_.end() && belongs(next)) {
    remove_free(next);
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block != blocks_.begin()) {
    const auto before = std::prev(block);
    if (belongs(before)) {
      remove_free(before);
      before->second.bytes += block->second.bytes;
      blocks_.erase(block);
      block = before;
    }
  }
  return block;
}

int CachingAllocator::make_pool() {
  const std::lock_guard lock(mutex_);
  return ++pools_;
}

void CachingAllocator::use_pool(int pool) {
  const std::lock_guard lock(mutex_);
  pool_ = pool;
}

void CachingAllocator::drop_pool(int pool) {
  const std::lock_guard lock(mutex_);
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (block->second.pool != pool) continue;
    if (!block->second.used) remove_free(block);
    block->second.pool = 0;
    if (block->second.used) continue;
    block = join_neighbours(block);
    add_free(block);
  }
}

void CachingAllocator::give_back_whole_segments() {
  platform::synchronize();
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const bool whole =
        !block->second.used && block->second.pool == 0 && block->second.bytes == segments_[block->second.segment];
    if (!whole) {
      ++block;
      continue;
    }
    remove_free(block);
    stats_.reserved_bytes -= static_cast<int64_t>(block->second.bytes);
    segments_.erase(block->first);
    platform::release(block->first);
    block = blocks_.erase(block);
  }
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.current_bytes;
}

void set_guards(bool on) { guarding = on; }
bool guards() { return guarding; }
int64_t broken_guards() { return broken; }

namespace {

CachingAllocator& allocator_of(int index) {
  constexpr int kMost = 64;
  require_device(index);
  BOCHNER_ASSERT(index < kMost);
  static std::mutex mutex;
  static CachingAllocator* allocators[kMost] = {};  // never destroyed: tensors with static storage may outlive them
  const std::lock_guard lock(mutex);
  if (allocators[index] == nullptr) allocators[index] = new CachingAllocator(index);  // NOLINT
  return *allocators[index];
}

}  // namespace

Allocator& allocator(int index) { return allocator_of(index); }
int make_pool(int index) { return allocator_of(index).make_pool(); }
void use_pool(int index, int pool) { allocator_of(index).use_pool(pool); }
void drop_pool(int index, int pool) { allocator_of(index).drop_pool(pool); }

}  // namespace bochner::cuda
