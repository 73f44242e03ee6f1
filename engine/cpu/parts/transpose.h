// Squares of a matrix transposed within registers.
#pragma once

#include <utility>

#include "engine/cpu/parts/vector.h"

namespace bochner::cpu {

namespace detail {

template <class V, int... I>
inline V interleaved(V a, V b, int half, std::integer_sequence<int, I...>) {
  constexpr int kW = sizeof...(I);
  // lanes a_k, b_k, a_(k+1), b_(k+1), ... of the lower or upper half
  return half == 0 ? __builtin_shufflevector(a, b, (I / 2 + (I % 2) * kW)...)
                   : __builtin_shufflevector(a, b, (kW / 2 + I / 2 + (I % 2) * kW)...);
}

}  // namespace detail

/// Transposes W vectors of W lanes in registers: each stage rotates the bits of (row, lane) by one.
template <class T, int W = kLanes<T>>
inline void transpose_registers(Vector<T> (&x)[W]) {
  using V = Vector<T>;
  constexpr auto kLaneNumbers = std::make_integer_sequence<int, W>{};
#pragma GCC unroll 8
  for (int stage = 1; stage < W; stage *= 2) {
    V y[W];
#pragma GCC unroll 16
    for (int i = 0; i < W / 2; ++i) {
      y[2 * i] = detail::interleaved(x[i], x[i + W / 2], 0, kLaneNumbers);
      y[2 * i + 1] = detail::interleaved(x[i], x[i + W / 2], 1, kLaneNumbers);
    }
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) x[i] = y[i];
  }
}

}  // namespace bochner::cpu
