// Memory of one device, kept and reused: in steady state, a training step requests no memory from the system.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/device.h"
#include "engine/error.h"

namespace bochner {

struct MemoryStats {
  int64_t current_bytes = 0;       ///< handed out now
  int64_t peak_bytes = 0;          ///< the most handed out at once since reset_peak()
  int64_t reserved_bytes = 0;      ///< taken from the system, in use or kept for reuse
  int64_t system_allocations = 0;  ///< how often the system was asked for more
};

/// More memory was requested than there is.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// At least `bytes`, aligned to 64; not cleared. If there is not enough memory, an OutOfMemory names the bytes
  /// requested and those that are free.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* pointer, size_t bytes) = 0;
  virtual MemoryStats stats() const = 0;
  virtual void reset_peak() = 0;

  /// The allocator of that device; it lives until the program ends.
  static Allocator& of(Device device);
};

}  // namespace bochner
