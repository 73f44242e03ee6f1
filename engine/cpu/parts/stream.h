// Stores that bypass the caches, for kernels whose output is larger than the caches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/cpu/parts/vector.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace bochner::cpu {

/// Outputs of more bytes than this bypass the caches: they would be evicted before anyone reads them, and a plain store
/// first reads the cache line that it overwrites.
inline constexpr int64_t kStreamBytes = int64_t{8} << 20;

/// to[i] = from[i], bypassing the caches; to and from must not overlap. Call stream_fence before another thread reads.
template <class T>
inline void stream(T* to, const T* from, int64_t count) {
#if defined(__AVX512F__)
  const auto misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % 64 / sizeof(T));
  const int64_t head = misaligned == 0 ? 0 : std::min<int64_t>(count, kLanes<T> - misaligned);
  std::memcpy(to, from, static_cast<size_t>(head) * sizeof(T));
  int64_t i = head;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
  }
  std::memcpy(to + i, from + i, static_cast<size_t>(count - i) * sizeof(T));
#else
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
#endif
}
inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// Output that is produced in blocks of at most kBlock elements. `block(n)` returns where to write the next n elements,
/// which go to memory at the next call or at the end. The bytes are the same whether or not the caches are bypassed.
template <class T>
class BlockWriter {
 public:
  static constexpr int64_t kBlock = 16384 / static_cast<int64_t>(sizeof(T));

  /// Writes from `to` on, for an output of `total` elements.
  BlockWriter(T* to, int64_t total) : to_(to), streamed_(total * static_cast<int64_t>(sizeof(T)) > kStreamBytes) {}
  ~BlockWriter() {
    flush();
    if (streamed_) stream_fence();
  }
  BlockWriter(const BlockWriter&) = delete;
  BlockWriter& operator=(const BlockWriter&) = delete;

  T* block(int64_t count) {
    if (!streamed_ || count > kBlock) {
      flush();
      T* place = to_;
      to_ += count;
      return place;
    }
    if (held_ + count > kBlock) flush();
    T* place = buffer_ + held_;
    held_ += count;
    return place;
  }

 private:
  void flush() {
    stream(to_, buffer_, held_);
    to_ += held_;
    held_ = 0;
  }

  T* to_;
  bool streamed_;
  int64_t held_ = 0;
  alignas(64) T buffer_[kBlock];
};

}  // namespace bochner::cpu
