// Vectors of the machine's widest registers, through the compiler's vector extensions: arithmetic and comparisons work
// lane by lane, without intrinsics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bochner::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kVectorRegisters = 16;
#elif defined(__aarch64__)
inline constexpr int kVectorBytes = 16;
inline constexpr int kVectorRegisters = 32;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kVectorRegisters = 16;
#endif

template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T, int W>
struct VectorOf {
  typedef T type __attribute__((vector_size(W * sizeof(T))));
};
template <class T>
struct VectorOf<T, 1> {
  using type = T;
};

/// W values of T; T itself for W = 1.
template <class T, int W = kLanes<T>>
using Vector = typename VectorOf<T, W>::type;

/// From any address.
template <class V, class T>
inline V load(const T* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}
template <class V, class T>
inline void store(T* to, const V& value) {
  std::memcpy(to, &value, sizeof(V));
}

}  // namespace bochner::cpu
