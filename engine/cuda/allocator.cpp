#include "engine/cuda/allocator.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <vector>

#include "engine/cuda/platform.h"
#include "engine/cuda/runtime.h"

namespace bochner::cuda {
namespace {

constexpr size_t kAlignment = 512;                   // of every block
constexpr size_t kSmallSegment = size_t{32} << 20;   // the least that the driver is asked for
constexpr size_t kLargeSegment = size_t{256} << 20;  // requests above this get a segment of their own size

constexpr unsigned char kGuard = 0xA5;
std::atomic<bool> guarding{false};
std::atomic<int64_t> broken{0};

size_t rounded(size_t bytes, size_t unit) { return std::max<size_t>(1, (bytes + unit - 1) / unit) * unit; }

}  // namespace

void* CachingAllocator::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool guarded = guarding;
  const auto block = take(rounded(bytes, kAlignment) + (guarded ? 2 * kAlignment : 0));
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
  const auto found = free_.lower_bound({bytes, nullptr});
  const auto block = found != free_.end() ? blocks_.find(found->second) : grow(bytes);
  remove_free(block);
  if (block->second.bytes > bytes) {
    const Block rest{block->second.bytes - bytes, block->second.segment, false};
    block->second.bytes = bytes;
    add_free(blocks_.emplace(block->first + bytes, rest).first);
  }
  return block;
}

CachingAllocator::Blocks::iterator CachingAllocator::grow(size_t bytes) {
  platform::use(device_);
  const size_t wanted =
      bytes <= kSmallSegment / 4 ? kSmallSegment : std::max(bytes, std::min(2 * bytes, kLargeSegment));
  size_t size = rounded(wanted, size_t{2} << 20);
  void* memory = platform::allocate(size);
  if (memory == nullptr) {
    give_back_whole_segments();
    size = rounded(bytes, size_t{2} << 20);
    memory = platform::allocate(size);
  }
  if (memory == nullptr) {
    const platform::Memory left = platform::memory();
    fail("memory: cuda:{}: {} bytes are wanted, {} of {} are free, and {} are in use here; use smaller batches",
         device_, bytes, left.free, left.total, stats_.current_bytes);
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
  const auto next = std::next(block);
  if (next != blocks_.end() && !next->second.used && next->second.segment == block->second.segment) {
    remove_free(next);
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block != blocks_.begin()) {
    const auto before = std::prev(block);
    if (!before->second.used && before->second.segment == block->second.segment) {
      remove_free(before);
      before->second.bytes += block->second.bytes;
      blocks_.erase(block);
      block = before;
    }
  }
  add_free(block);
}

void CachingAllocator::give_back_whole_segments() {
  platform::synchronize();
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const bool whole = !block->second.used && block->second.bytes == segments_[block->second.segment];
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
int64_t broken_guards() { return broken; }

Allocator& allocator(int index) {
  constexpr int kMost = 64;
  require_device(index);
  BOCHNER_ASSERT(index < kMost);
  static std::mutex mutex;
  static CachingAllocator* allocators[kMost] = {};  // never destroyed: tensors with static storage may outlive them
  const std::lock_guard lock(mutex);
  if (allocators[index] == nullptr) allocators[index] = new CachingAllocator(index);  // NOLINT
  return *allocators[index];
}

}  // namespace bochner::cuda
