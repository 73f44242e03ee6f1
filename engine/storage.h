// Reference-counted bytes on one device; tensors are views of a storage.
//
// A storage counts how often its bytes were overwritten in place. This tells a tape, before it runs the backward of an
// op, whether what the op kept for its gradient has changed, and tells a kernel whether the packed copies of weights
// that it kept are still valid (packed_weights.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/allocator.h"
#include "engine/device.h"
#include "engine/work.h"

namespace bochner {

class Storage {
 public:
  Storage(Device device, size_t bytes) : device_(device), bytes_(bytes), data_(Allocator::of(device).allocate(bytes)) {
    work::add_bytes(2 * static_cast<double>(bytes));
  }
  ~Storage() { Allocator::of(device_).release(data_, bytes_); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device device() const { return device_; }
  size_t bytes() const { return bytes_; }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

  /// How often these bytes were overwritten.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void overwritten() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  Device device_;
  size_t bytes_;
  void* data_;
  std::atomic<uint64_t> version_{0};
};

/// A storage and its version at some time.
struct StorageVersion {
  const Storage* storage;
  uint64_t version;

  bool holds() const { return storage->version() == version; }
};

/// A tensor's reference to its storage. Copies of it can be watched, which shows what a closure holds, since copying a
/// closure copies the tensors in it.
class SharedStorage {
 public:
  /// During its lifetime, the storages of the copies made by this thread are added to `list`.
  class Watch {
   public:
    explicit Watch(std::vector<StorageVersion>& list) : outer_(std::exchange(list_, &list)) {}
    ~Watch() { list_ = outer_; }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    std::vector<StorageVersion>* outer_;
  };

  SharedStorage() = default;
  SharedStorage(std::shared_ptr<Storage> storage) : storage_(std::move(storage)) {}  // NOLINT: one and the same
  SharedStorage(const SharedStorage& other) : storage_(other.storage_) {
    if (list_ != nullptr && storage_ != nullptr) list_->push_back({storage_.get(), storage_->version()});
  }
  SharedStorage(SharedStorage&&) noexcept = default;
  SharedStorage& operator=(const SharedStorage&) = default;
  SharedStorage& operator=(SharedStorage&&) noexcept = default;
  ~SharedStorage() = default;

  Storage* get() const { return storage_.get(); }
  Storage* operator->() const { return storage_.get(); }
  bool is_only_share() const { return storage_.use_count() == 1; }

 private:
  static constinit thread_local std::vector<StorageVersion>* list_;
  std::shared_ptr<Storage> storage_;
};

}  // namespace bochner
