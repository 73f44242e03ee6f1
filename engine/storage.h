// Reference-counted bytes on one device; tensors are views of a storage.
#pragma once

#include <cstddef>
#include <memory>

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

 private:
  Device device_;
  size_t bytes_;
  void* data_;
};

}  // namespace bochner
