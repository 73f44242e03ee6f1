// Products of f32 matrices in shared memory without tensor cores: each thread has a patch of 8 rows of the product in
// registers. For heads of 64 it reads 16 bytes per 16 multiply-adds, so that shared memory keeps up.
//
// The rows of a tile follow each other without gaps. Groups of four numbers within a row are permuted, differently in
// neighbouring rows (patch_tile_place), so that threads that read a column of these groups have no bank conflicts.
#pragma once

#include "engine/cuda/parts/elementwise.h"

namespace bochner::cuda {

constexpr int kPatch = 8;

/// Which threads of a block this one stands for, since the emulated backend has one for all: thread_of(team, s) for s
/// in [0, kThreadShare).
#if defined(__CUDACC__)
template <int threads>
inline constexpr int kThreadShare = 1;
template <class Team>
__device__ int thread_of(const Team& team, int) {
  return team.rank();
}
#else
template <int threads>
inline constexpr int kThreadShare = threads;
template <class Team>
int thread_of(const Team&, int s) {
  return s;
}
#endif

/// Where the four numbers from column 4 * four on in a row of a tile begin.
BOCHNER_DEVICE constexpr int four_place(int row, int four) { return 4 * (four ^ (row & 7)); }
template <int columns>
BOCHNER_DEVICE constexpr int patch_tile_place(int row, int column) {
  return row * columns + four_place(row, column / 4) + column % 4;
}

/// A warp has 32 rows, and a thread 8 of them: row, row + 4, ... Eight threads share each row. Two neighbouring lanes
/// share their columns, and two lanes at distance two share their rows, so that half a warp reads at once.
struct PatchPlace {
  int row, column;
  BOCHNER_DEVICE constexpr explicit PatchPlace(int thread)
      : row(thread / 32 * 32 + thread / 16 % 2 * 2 + thread % 2), column(thread / 2 % 8) {}
};

/// f(i, j, element) for each of a thread's elements.
template <int columns, class F>
BOCHNER_DEVICE void each(float (&patch)[kPatch][columns], const F& f) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
#pragma unroll
    for (int j = 0; j < columns; ++j) f(i, j, patch[i][j]);
  }
}

/// The four numbers from column 4 k on of a tile with K columns, in each row 4 i below the one at `place`.
template <int K>
BOCHNER_DEVICE void load_rows(Four<float> (&rows)[kPatch], const float* tile, int place, int k) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i) rows[i] = load<4>(tile + (place ^ (4 * k) ^ (16 * (i % 2))) + 4 * i * K);
}

/// c += a b^T for tiles with K columns: c[i][j] belongs to row place.row + 4 i of a and row place.column + 8 j of b.
template <int K>
BOCHNER_DEVICE void multiply_rows(float (&c)[kPatch][kPatch], const float* a, const float* b, PatchPlace place) {
  const int left_at = patch_tile_place<K>(place.row, 0);
  const int right_at = patch_tile_place<K>(place.column, 0);
#pragma unroll 2
  for (int k = 0; k < K / 4; ++k) {
    Four<float> left[kPatch];
    load_rows<K>(left, a, left_at, k);
#pragma unroll
    for (int j = 0; j < kPatch; ++j) {
      const Four<float> right = load<4>(b + (right_at ^ (4 * k)) + 8 * j * K);
#pragma unroll
      for (int l = 0; l < 4; ++l) {
#pragma unroll
        for (int i = 0; i < kPatch; ++i) c[i][j] += left[i].at[l] * right.at[l];
      }
    }
  }
}

/// c += a b for tiles a with K columns and b with K rows and `columns` columns: c[i][j] belongs to row place.row + 4 i
/// and column patch_column(place, j).
template <int K, int columns>
BOCHNER_DEVICE void multiply_columns(float (&c)[kPatch][columns / 8], const float* a, const float* b,
                                     PatchPlace place) {
  const int left_at = patch_tile_place<K>(place.row, 0);
#pragma unroll 2
  for (int k = 0; k < K / 4; ++k) {
    Four<float> left[kPatch];
    load_rows<K>(left, a, left_at, k);
#pragma unroll
    for (int l = 0; l < 4; ++l) {
#pragma unroll
      for (int n = 0; n < columns / 32; ++n) {
        const int row = 4 * k + l;
        const Four<float> right = load<4>(b + row * columns + 32 * n + four_place(row, place.column));
#pragma unroll
        for (int m = 0; m < 4; ++m) {
#pragma unroll
          for (int i = 0; i < kPatch; ++i) c[i][4 * n + m] += left[i].at[l] * right.at[m];
        }
      }
    }
  }
}
BOCHNER_DEVICE constexpr int patch_column(PatchPlace place, int j) { return j / 4 * 32 + place.column * 4 + j % 4; }

/// Where element (i, j) of a thread's part of a b^T is in a tile of 64 columns: patch_tile_place of row place.row + 4 i
/// and column place.column + 8 j.
BOCHNER_DEVICE constexpr int patch_place(PatchPlace place, int i, int j) {
  return (patch_tile_place<64>(place.row, place.column) ^ (8 * j) ^ (16 * (i % 2))) + 4 * 64 * i;
}

/// Reduces x[s][i], a number in each thread for each of its rows, to the number of the whole row.
template <int threads, class F>
BOCHNER_DEVICE void reduce_rows(float (&x)[kThreadShare<threads>][kPatch], const F& f) {
  for (int step = 2; step < 16; step *= 2) {
#if defined(__CUDACC__)
#pragma unroll
    for (float& value : x[0]) value = f(value, __shfl_xor_sync(0xFFFFFFFFU, value, step));
#else
    for (int s = 0; s < threads; ++s) {
      if ((s & step) != 0) continue;
      for (int i = 0; i < kPatch; ++i) x[s][i] = x[s ^ step][i] = f(x[s][i], x[s ^ step][i]);
    }
#endif
  }
}

/// Starts to copy the rows with wanted(row), of `there` columns, to a tile; the rest of the tile becomes 0. The tile
/// may be read after wait_for_copies() and a sync(). by_four: rows begin at multiples of 16 bytes, and `there` is a
/// multiple of 4.
template <int threads, int rows, int columns, class Team, class Wanted>
BOCHNER_DEVICE void begin_copy_tile(const Team& team, const float* from, int64_t stride, int there, bool by_four,
                                    float* tile, const Wanted& wanted) {
  const auto copy = [&]<int n>(std::integral_constant<int, n>, int thread) {
    constexpr int kAtOnce = threads * n / columns;  // rows
    static_assert(rows % kAtOnce == 0);
    const int first = thread / (columns / n);
    const int column = thread % (columns / n) * n;
    const float* at = from + first * stride + column;
#pragma unroll 4
    for (int row = first; row < rows; row += kAtOnce) {
      const bool has = column < there && wanted(row);
      float* const to = tile + patch_tile_place<columns>(row, column);
      const float* const source = has ? at : from;
      at += kAtOnce * stride;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
      asm volatile(
          "cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
          "l"(source), "n"(4 * n), "r"(has ? 4 * n : 0)
          : "memory");
#else
      store(to, has ? load<n>(source) : Vector<float, n>{});
#endif
    }
  };
  for (int s = 0; s < kThreadShare<threads>; ++s) {
    if (by_four) {
      copy(std::integral_constant<int, 4>{}, thread_of(team, s));
    } else {
      copy(std::integral_constant<int, 1>{}, thread_of(team, s));
    }
  }
}

}  // namespace bochner::cuda
