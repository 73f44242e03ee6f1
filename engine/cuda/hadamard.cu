// The stages of H_n (engine/ops/hadamard.h) in ascending order, as on the CPU. Rows of up to a tile's elements are read
// and written once: a thread holds some elements, computes the stages among these, and exchanges elements with its
// block in shared memory. Longer rows take another pass over memory for each further factor of 16.
#include "engine/ops/hadamard.h"

#include <algorithm>
#include <bit>

#include "engine/cuda/parts/elementwise.h"

namespace bochner::cuda {
namespace {

template <class T>
BOCHNER_DEVICE void butterfly(T& a, T& b) {
  const T sum = a + b;
  b = a - b;
  a = sum;
}

/// The stages stride ... stride * radix / 2 below n, for elements that are `stride` apart.
template <int radix, class T, int width>
BOCHNER_DEVICE void stages(Vector<T, width> (&x)[radix], int64_t stride, int64_t n) {
#pragma unroll
  for (int h = 1; h < radix; h *= 2) {
    if (h * stride >= n) break;
#pragma unroll
    for (int i = 0; i < radix; ++i) {
      if ((i & h) != 0) continue;
#pragma unroll
      for (int j = 0; j < width; ++j) butterfly(x[i].at[j], x[i + h].at[j]);
    }
  }
}

constexpr int kGroup = 128;
/// Where group g begins in shared memory. The gaps let the lanes of a warp, four neighbours in each of eight groups,
/// use all banks, and keep vectors aligned.
constexpr int kGroupStep = kGroup + 4;

/// Stages 1 ... n / 2 of a tile: the given number of groups of consecutive elements, n a divisor of their number.
template <class T, int groups, int threads>
struct NearStages {
  static constexpr int kTile = groups * kGroup;
  static constexpr size_t kShared = groups * kGroupStep * sizeof(T);
  static constexpr int kVectors = kTile / 4 / threads;
  static constexpr int kWidth = kGroup / threads;

  int n;
  int64_t total;
  bool vectors;  ///< whether from and to can be moved in vectors
  const T* from;
  T* to;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    T* shared = team.template shared<T>();
    const int64_t first = team.index() * kTile;
    const bool whole = vectors && first + kTile <= total;
    for (int unit = team.rank(); unit < threads; unit += team.size()) read(first, whole, unit, shared);
    team.sync();
    if (n > 4) {
      for (int unit = team.rank(); unit < 4 * groups; unit += team.size()) {  // 32 elements of a group, 4 apart
        T* at = shared + unit / 4 * kGroupStep + unit % 4;
        Vector<T, 1> x[32];
#pragma unroll
        for (int i = 0; i < 32; ++i) x[i].at[0] = at[4 * i];
        stages(x, 4, n);
#pragma unroll
        for (int i = 0; i < 32; ++i) at[4 * i] = x[i].at[0];
      }
      team.sync();
    }
    for (int unit = team.rank(); unit < threads; unit += team.size()) write(first, whole, unit, shared);
  }

 private:
  /// Stages 1 and 2 on vectors, into shared memory.
  BOCHNER_DEVICE void read(int64_t first, bool whole, int unit, T* shared) const {
    constexpr int kApart = 4 * threads;
    Four<T> x[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int64_t at = first + 4 * unit + i * kApart;
      if (whole) {
        x[i] = load4(from + at);
      } else {
        for (int j = 0; j < 4; ++j) x[i].at[j] = at + j < total ? from[at + j] : T(0);
      }
    }
    T* place = shared + unit / 32 * kGroupStep + unit % 32 * 4;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      T(&a)[4] = x[i].at;
      if (n > 1) {
        butterfly(a[0], a[1]);
        butterfly(a[2], a[3]);
      }
      if (n > 2) {
        butterfly(a[0], a[2]);
        butterfly(a[1], a[3]);
      }
      store4(place + i * (kApart / kGroup * kGroupStep), x[i]);
    }
  }

  /// The stages from kGroup on, on the same positions in all groups.
  BOCHNER_DEVICE void write(int64_t first, bool whole, int unit, const T* shared) const {
    using Place = Vector<T, kWidth>;
    Place x[groups];
    const T* place = shared + unit * kWidth;
#pragma unroll
    for (int i = 0; i < groups; ++i) x[i] = *reinterpret_cast<const Place*>(place + i * kGroupStep);
    stages(x, kGroup, n);
#pragma unroll
    for (int i = 0; i < groups; ++i) {
      const int64_t at = first + unit * kWidth + i * kGroup;
      if (whole) {
        *reinterpret_cast<Place*>(to + at) = x[i];
      } else {
        for (int j = 0; j < kWidth && at + j < total; ++j) to[at + j] = x[i].at[j];
      }
    }
  }
};

/// Stages stride ... stride * radix / 2, stride = 2^shift, in place in global memory: one thread per unit.
template <class T>
struct FarStages {
  int radix, shift;
  T* x;

  template <int chosen>
  BOCHNER_DEVICE void run(int64_t unit) const {
    const int64_t stride = int64_t{1} << shift;
    T* at = x + (unit >> shift) * stride * chosen + (unit & (stride - 1));
    Vector<T, 1> value[chosen];
#pragma unroll
    for (int i = 0; i < chosen; ++i) value[i].at[0] = at[i * stride];
    stages(value, 1, chosen);
#pragma unroll
    for (int i = 0; i < chosen; ++i) at[i * stride] = value[i].at[0];
  }
  BOCHNER_DEVICE void operator()(int64_t unit) const {
    switch (radix) {
      case 16:
        return run<16>(unit);
      case 8:
        return run<8>(unit);
      case 4:
        return run<4>(unit);
      default:
        return run<2>(unit);
    }
  }
};

/// Returns the size of the pieces of rows that are complete.
template <class T, int groups, int threads>
int64_t near_stages(int64_t n, const Tensor& from, const Tensor& to) {
  using Stages = NearStages<T, groups, threads>;
  const int64_t done = std::min<int64_t>(n, Stages::kTile);
  const bool vectors = aligned(from.data<T>()) && aligned(to.data<T>());
  launch_blocks<threads>(ceil_div(from.size(), Stages::kTile), Stages::kShared,
                         Stages{static_cast<int>(done), from.size(), vectors, from.data<T>(), to.data<T>()});
  return done;
}

}  // namespace

void hadamard(int64_t rows, int64_t n, const Tensor& from, const Tensor& to) {
  visit_floating(from.dtype(), "hadamard", [&]<class T>(TypeTag<T>) {
    constexpr int kMost = static_cast<int>(256 / sizeof(T));  // groups: a thread's registers hold as many elements
    int64_t stride = n <= 8 * kGroup ? near_stages<T, 8, 32>(n, from, to) : near_stages<T, kMost, 128>(n, from, to);
    while (stride < n) {
      const int radix = static_cast<int>(std::min<int64_t>(16, n / stride));
      const int shift = std::countr_zero(static_cast<uint64_t>(stride));
      launch_threads(rows * n / radix, FarStages<T>{radix, shift, to.data<T>()});
      stride *= radix;
    }
  });
}

}  // namespace bochner::cuda
