// The stages of H_n (engine/ops/hadamard.h), three or four at a time in registers. Rows of up to kTile elements are
// read and written once and exchanged between threads in shared memory; longer rows take another pass over memory for
// each further factor of 8.
#include "engine/ops/hadamard.h"

#include <algorithm>

#include "engine/cuda/parts/launch.h"

namespace bochner::cuda {
namespace {

constexpr int64_t kTileBytes = 32768;

/// The place of element i in shared memory: there is a gap after every 32nd, so that strides of 8 use all banks.
BOCHNER_DEVICE inline int64_t padded(int64_t i) { return i + (i >> 5); }

template <int radix, class T>
BOCHNER_DEVICE void butterflies(T (&x)[radix]) {
#pragma unroll
  for (int h = 1; h < radix; h *= 2) {
#pragma unroll
    for (int i = 0; i < radix; ++i) {
      if ((i & h) != 0) continue;
      const T sum = x[i] + x[i + h];
      x[i + h] = x[i] - x[i + h];
      x[i] = sum;
    }
  }
}

/// Stages stride ... stride * radix / 2 of `count` elements; from and to are shared memory unless said to be global.
template <int radix, class T, class Team>
BOCHNER_DEVICE void pass(const Team& team, int64_t count, int64_t stride, bool from_global, bool to_global,
                         const T* from, T* to) {
  for (int64_t unit = team.rank(); unit < count / radix; unit += team.size()) {
    const int64_t base = unit / stride * stride * radix + unit % stride;
    T x[radix];
#pragma unroll
    for (int i = 0; i < radix; ++i) {
      const int64_t at = base + i * stride;
      x[i] = from[from_global ? at : padded(at)];
    }
    butterflies<radix>(x);
#pragma unroll
    for (int i = 0; i < radix; ++i) {
      const int64_t at = base + i * stride;
      to[to_global ? at : padded(at)] = x[i];
    }
  }
  team.sync();
}

template <class T, class Team>
BOCHNER_DEVICE void pass(const Team& team, int radix, int64_t count, int64_t stride, bool from_global, bool to_global,
                         const T* from, T* to) {
  switch (radix) {
    case 16:
      return pass<16>(team, count, stride, from_global, to_global, from, to);
    case 8:
      return pass<8>(team, count, stride, from_global, to_global, from, to);
    case 4:
      return pass<4>(team, count, stride, from_global, to_global, from, to);
    case 2:
      return pass<2>(team, count, stride, from_global, to_global, from, to);
    default:
      return pass<1>(team, count, stride, from_global, to_global, from, to);
  }
}

/// Stages 1 ... n / 2 of `chunk` consecutive elements, n a divisor of it.
template <class T>
struct NearStages {
  int64_t n, chunk, total;
  const T* from;
  T* to;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    T* shared = team.template shared<T>();
    const int64_t first = team.index() * chunk;
    const int64_t count = first + chunk < total ? chunk : total - first;
    bool begins = true;
    for (int64_t stride = 1; begins || stride < n;) {
      const int64_t left = n / stride;
      const int radix = left == 16 || left >= 128 ? 16 : (left >= 8 ? 8 : static_cast<int>(left));
      const int chosen = begins && radix == 16 ? 8 : radix;  // 16 neighbours would use only half of the banks
      const bool ends = stride * chosen == n;
      pass(team, chosen, count, stride, begins, ends, begins ? from + first : shared, ends ? to + first : shared);
      begins = false;
      stride *= chosen;
    }
  }
};

/// Stages stride ... stride * radix / 2, in place in global memory: a thread for each of the units.
template <class T>
struct FarStages {
  int radix;
  int64_t stride;
  T* x;

  template <int chosen>
  BOCHNER_DEVICE void run(int64_t unit) const {
    T* at = x + unit / stride * stride * chosen + unit % stride;
    T value[chosen];
#pragma unroll
    for (int i = 0; i < chosen; ++i) value[i] = at[i * stride];
    butterflies<chosen>(value);
#pragma unroll
    for (int i = 0; i < chosen; ++i) at[i * stride] = value[i];
  }
  BOCHNER_DEVICE void operator()(int64_t unit) const {
    switch (radix) {
      case 8:
        return run<8>(unit);
      case 4:
        return run<4>(unit);
      default:
        return run<2>(unit);
    }
  }
};

}  // namespace

void hadamard(int64_t rows, int64_t n, const Tensor& from, const Tensor& to) {
  visit_floating(from.dtype(), "hadamard", [&]<class T>(TypeTag<T>) {
    constexpr int64_t kTile = kTileBytes / static_cast<int64_t>(sizeof(T));
    const int64_t total = rows * n;
    const int64_t tile = std::min(n, kTile);
    const int64_t chunk = std::max<int64_t>(tile, 2048);
    launch_blocks<256>(ceil_div(total, chunk), static_cast<size_t>(chunk + chunk / 32) * sizeof(T),
                       NearStages<T>{tile, chunk, total, from.data<T>(), to.data<T>()});
    for (int64_t stride = tile; stride < n;) {
      const int radix = static_cast<int>(std::min<int64_t>(8, n / stride));
      launch_threads(total / radix, FarStages<T>{radix, stride, to.data<T>()});
      stride *= radix;
    }
  });
}

}  // namespace bochner::cuda
