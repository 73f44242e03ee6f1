// Sums whose order is fixed by the length alone, in as many lanes as the compiler likes to fill vectors with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace bochner::cpu {

/// sum of term(i) for i in [0, count): lane j takes every 32nd term from j on, then the lanes are added in pairs.
template <class T, class Term>
inline T lane_sum(int64_t count, const Term& term) {
  constexpr size_t kLanes = 32;
  std::array<T, kLanes> lanes{};
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kLanes) <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] += term(i + static_cast<int64_t>(j));
  }
  for (size_t j = 0; i + static_cast<int64_t>(j) < count; ++j) lanes[j] += term(i + static_cast<int64_t>(j));
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return lanes[0];
}

}  // namespace bochner::cpu
