// Squares of a matrix transposed within registers.
#pragma once

#include <utility>

#include "engine/cpu/parts/vector.h"

namespace bochner::cpu {

namespace detail {

/// Numbers in 16 bytes: most instructions move numbers within such a part of a vector, the others move whole parts.
template <class T>
inline constexpr int kPart = 16 / static_cast<int>(sizeof(T));

/// In each part, numbers of a and b alternately, from its lower or upper half.
template <class T, int half, int... I>
inline Vector<T> zipped(const Vector<T>& a, const Vector<T>& b, std::integer_sequence<int, I...>) {
  constexpr int kP = kPart<T>;
  constexpr int kW = kLanes<T>;
  return __builtin_shufflevector(a, b, (I / kP * kP + half * kP / 2 + I % kP / 2 + I % 2 * kW)...);
}

/// Every other part of a, then of b, from part number `odd` on.
template <class T, int odd, int... I>
inline Vector<T> every_other(const Vector<T>& a, const Vector<T>& b, std::integer_sequence<int, I...>) {
  constexpr int kP = kPart<T>;
  constexpr int kW = kLanes<T>;
  return __builtin_shufflevector(a, b, ((I / kP * 2 + odd) * kP % kW + I % kP + I / (kW / 2) * kW)...);
}

/// Exchanges bit `step` of the numbers of rows and columns.
template <class T, int step>
inline void exchange(Vector<T> (&x)[kLanes<T>]) {
  constexpr auto kLaneNumbers = std::make_integer_sequence<int, kLanes<T>>{};
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) {
    if ((i & step) != 0) continue;
    const Vector<T> a = x[i];
    const Vector<T> b = x[i + step];
    if constexpr (step < kPart<T>) {
      x[i] = zipped<T, 0>(a, b, kLaneNumbers);
      x[i + step] = zipped<T, 1>(a, b, kLaneNumbers);
    } else {
      x[i] = every_other<T, 0>(a, b, kLaneNumbers);
      x[i + step] = every_other<T, 1>(a, b, kLaneNumbers);
    }
  }
}

}  // namespace detail

/// Transposes W vectors of W lanes in registers.
template <class T>
inline void transpose_registers(Vector<T> (&x)[kLanes<T>]) {
  constexpr int kP = detail::kPart<T>;
  constexpr int kW = kLanes<T>;
  if constexpr (kP > 2) detail::exchange<T, kP / 2>(x);
  detail::exchange<T, 1>(x);
  if constexpr (kW > kP) detail::exchange<T, kP>(x);
  if constexpr (kW > 2 * kP) detail::exchange<T, 2 * kP>(x);
}

}  // namespace bochner::cpu
