// Loops along a row in whole vectors and then element by element, with one body for both: its type parameter is first
// Vector<T> and then, for the rest, T.
//
//   for_lanes<T>(n, [&]<class V>(TypeTag<V>, int64_t i) { store(y + i, load<V>(x + i) * scale); });
//   const T total = sum_lanes<T>(n, [&]<class V>(TypeTag<V>, int64_t i) { return load<V>(x + i); });
//
// The order of a sum depends only on its length, so equal rows give equal bits wherever they are. lane_sum does the
// same for scalar terms such as those of engine/math.h, which the compiler vectorises.
//
// If the pointers in a loop might overlap, the compiler makes two copies of it and chooses by the addresses; for a b +
// c d, each copy may round another product. So that bits do not depend on where memory lies, such a sum is written with
// math::fma or, if it is within a function such as an activation, its loop is `omp simd`, which has no second copy.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/cpu/parts/stored.h"

namespace bochner::cpu {

template <class T, class Body>
inline void for_lanes(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) body(TypeTag<Vector<T>>{}, i);
  for (; i < count; ++i) body(TypeTag<T>{}, i);
}

/// The sum of the lanes of v: the upper half is added to the lower half, again and again.
template <class T, int W = kLanes<T>>
inline T sum_of(const Vector<T, W>& v) {
  if constexpr (W == 1) {
    return v;
  } else if constexpr (W == 2) {
    return v[0] + v[1];
  } else {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      const Vector<T, W / 2> lower = __builtin_shufflevector(v, v, I...);
      const Vector<T, W / 2> upper = __builtin_shufflevector(v, v, (I + W / 2)...);
      return sum_of<T, W / 2>(lower + upper);
    }
    (std::make_index_sequence<W / 2>{});
  }
}

/// sum_i term(i), in four vectors of partial sums.
template <class T, class Term>
inline T sum_lanes(int64_t count, const Term& term) {
  constexpr int64_t kStep = kLanes<T>;
  using V = Vector<T>;
  V a{}, b{}, c{}, d{};
  int64_t i = 0;
  for (; i + 4 * kStep <= count; i += 4 * kStep) {
    a += term(TypeTag<V>{}, i);
    b += term(TypeTag<V>{}, i + kStep);
    c += term(TypeTag<V>{}, i + 2 * kStep);
    d += term(TypeTag<V>{}, i + 3 * kStep);
  }
  for (; i + kStep <= count; i += kStep) a += term(TypeTag<V>{}, i);
  T rest(0);
  for (; i < count; ++i) rest += term(TypeTag<T>{}, i);
  return sum_of<T>((a + b) + (c + d)) + rest;
}

/// sum of term(i) for i in [0, count): lane j takes every 32nd term from j on, then the lanes are added in pairs.
template <class T, class Term>
inline T lane_sum(int64_t count, const Term& term) {
  constexpr size_t kWidth = 32;
  std::array<T, kWidth> lanes{};
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kWidth) <= count; i += kWidth) {
    for (size_t j = 0; j < kWidth; ++j) lanes[j] += term(i + static_cast<int64_t>(j));
  }
  for (size_t j = 0; i + static_cast<int64_t>(j) < count; ++j) lanes[j] += term(i + static_cast<int64_t>(j));
  for (size_t width = kWidth / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return lanes[0];
}

}  // namespace bochner::cpu
