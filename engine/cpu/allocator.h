// The CPU's memory: one large reservation of addresses, whose pages are touched from the bottom up.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>

#include "engine/allocator.h"

namespace bochner::cpu {

/// Best fit with splitting and merging. Freed blocks are kept for reuse, so a training step in steady state causes no
/// page faults. Low addresses are preferred, so the number of pages ever touched stays close to the peak in use.
class Arena : public Allocator {
 public:
  Arena();
  void* allocate(size_t bytes) override;
  void release(void* pointer, size_t bytes) override;
  MemoryStats stats() const override;
  void reset_peak() override;

 private:
  using Offset = size_t;
  void grow(size_t bytes);
  void add_free(Offset offset, size_t bytes);
  void remove_free(std::map<Offset, size_t>::iterator block);

  mutable std::mutex mutex_;
  std::byte* base_ = nullptr;
  size_t reserved_ = 0;                          ///< addresses, not memory
  size_t touched_ = 0;                           ///< bytes from the base that may have been touched
  std::map<Offset, size_t> free_;                ///< by place
  std::set<std::pair<size_t, Offset>> by_size_;  ///< by size, then place
  MemoryStats stats_;
};

}  // namespace bochner::cpu
