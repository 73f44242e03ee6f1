// Rows that a warp holds in its registers, so that they are read only once: for rows of whole vectors that are not too
// long.
#pragma once

#include <initializer_list>
#include <limits>
#include <type_traits>

#include "engine/cuda/parts/elementwise.h"

namespace bochner::cuda {

/// The number of lanes of a warp that one thread represents.
#if defined(__CUDACC__)
inline constexpr int kLanesEach = 1;
#else
inline constexpr int kLanesEach = 32;
#endif

/// The elements of one vector of a warp.
inline constexpr int kWarpVector = 128;

/// K warp vectors of a row: each thread has K vectors of four elements, one from each warp vector.
template <class T, int K>
struct HeldRow {
  static constexpr int kVectors = K * kLanesEach;  ///< per thread
  Four<T> at[kVectors];

  template <class Team>
  BOCHNER_DEVICE static int64_t place(const Team& team, int i) {
    return 4 * (team.rank() + static_cast<int64_t>(i) * team.size());
  }
  template <class Team, class S>
  BOCHNER_DEVICE void load(const Team& team, const S* row) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) at[i] = load4_as<T>(row + place(team, i));
  }
  template <class Team, class S>
  BOCHNER_DEVICE void store(const Team& team, S* row) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) store4_from(row + place(team, i), at[i]);
  }
  BOCHNER_DEVICE void clear() {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) at[i] = Four<T>{};
  }
  /// The largest element of the row, in every thread.
  template <class Team>
  BOCHNER_DEVICE T max(const Team& team) const {
    T top = -std::numeric_limits<T>::infinity();
    each([&](int i, int j) { top = at[i].at[j] > top ? at[i].at[j] : top; });
    return team.max(top);
  }
  /// The sum of all elements of the row, in every thread.
  template <class Team>
  BOCHNER_DEVICE T sum(const Team& team) const {
    T total = 0;
    each([&](int i, int j) { total += at[i].at[j]; });
    return team.sum(total);
  }
  /// f(vector, element of it) for each of this thread's elements.
  template <class F>
  BOCHNER_DEVICE static void each(const F& f) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) f(i, j);
    }
  }
};

/// Whether rows that begin at these addresses can be moved in vectors.
struct Movable {
  bool yes;
  template <class S>
  Movable(const S* rows) : yes(aligned(rows)) {}  // NOLINT: a list of pointers is a list of these
};

/// Calls body(integral constant K) and returns true if rows with this many elements, computed in f32, can be held. f64
/// cannot be held: nobody uses it for speed.
template <class T, class Body>
bool with_held_rows(int64_t columns, std::initializer_list<Movable> rows, const Body& body) {
  if constexpr (std::is_same_v<T, float>) {
    for (const Movable& begin : rows) {
      if (!begin.yes) return false;
    }
    if (columns % kWarpVector != 0) return false;
    switch (columns / kWarpVector) {
      case 1:
        return body(std::integral_constant<int, 1>{}), true;
      case 2:
        return body(std::integral_constant<int, 2>{}), true;
      case 4:
        return body(std::integral_constant<int, 4>{}), true;
      case 6:
        return body(std::integral_constant<int, 6>{}), true;
      case 8:
        return body(std::integral_constant<int, 8>{}), true;
      default:
        break;
    }
  }
  return false;
}

}  // namespace bochner::cuda
