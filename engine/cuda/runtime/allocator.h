// The caching allocator of a card, in stream order, with pools for recorded steps.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>

#include "engine/allocator.h"

namespace bochner::cuda {

/// Best fit with splitting and merging, on segments taken from the driver. A freed block can be reused immediately: all
/// work of a device is in one stream, so the next user writes after all earlier readers. A recorded step runs again
/// later, so its blocks belong to a separate pool.
class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(int device) : device_(device) {}
  void* allocate(size_t bytes) override;
  void release(void* pointer, size_t bytes) override;
  MemoryStats stats() const override;
  void reset_peak() override;

  int make_pool();
  void use_pool(int pool);
  void drop_pool(int pool);

 private:
  struct Block {
    size_t bytes;
    char* segment;  ///< blocks of different segments never merge
    bool used;
    int pool = 0;
    size_t guarded = 0;  ///< bytes between the guards, plus 1; 0: no guards
  };
  using Blocks = std::map<char*, Block>;

  Blocks::iterator grow(size_t bytes);
  Blocks::iterator take(size_t bytes);
  void give_back_whole_segments();
  void set_guards(Blocks::iterator block, size_t bytes);
  void check_guards(Blocks::iterator block);
  void add_free(Blocks::iterator block) { free_.insert({block->second.pool, block->second.bytes, block->first}); }
  void remove_free(Blocks::iterator block) { free_.erase({block->second.pool, block->second.bytes, block->first}); }
  Blocks::iterator join_neighbours(Blocks::iterator block);

  const int device_;
  mutable std::mutex mutex_;
  Blocks blocks_;                                  ///< by address
  std::set<std::tuple<int, size_t, char*>> free_;  ///< by pool, then size, then address
  std::unordered_map<char*, size_t> segments_;
  MemoryStats stats_;
  int pool_ = 0;   ///< in use
  int pools_ = 0;  ///< made so far
};

}  // namespace bochner::cuda
