// What softmax attention needs besides warp_matrix.h for the two strips of 16 rows that a warp has: a product of two
// factors in shared memory, sums of rows, dropout's bits, and copies of rows that may be missing.
//
// Rows in shared memory begin at multiples of 16 bytes; if their stride is an odd number of these, there are no bank
// conflicts.
#pragma once

#include <algorithm>

#include "engine/cuda/parts/tile.h"
#include "engine/cuda/parts/warp_matrix.h"

namespace bochner::cuda {

constexpr int kStrips = 2;
constexpr int kWarpRows = 16 * kStrips;

#if defined(__CUDACC__)

/// c += a b^T with a (32 x 16 K) and b (8 N x 16 K) in shared memory, their rows `stride` apart.
template <int K, int N>
__device__ void multiply_rows(Sum<N> (&c)[kStrips], const bfloat16* a, const bfloat16* b, int stride) {
  static_assert(N % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bfloat16* left_at = a + lane % 16 * stride + lane / 16 * 8;
  const bfloat16* at = b + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    uint32_t left[kStrips][4];
#pragma unroll
    for (int s = 0; s < kStrips; ++s) load_blocks<false>(left[s], left_at + 16 * s * stride + 16 * k);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t right[4];
      load_blocks<false>(right, at + 8 * n * stride + 16 * k);
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        multiply_block(c[s].v[n], left[s], right[0], right[1]);
        multiply_block(c[s].v[n + 1], left[s], right[2], right[3]);
      }
    }
  }
}

/// Sums of this lane's elements in each row; total_of_lanes() completes them.
template <int N>
__device__ RowValues sums_of_lane(const Sum<N>& x) {
  RowValues result{{0, 0}};
#pragma unroll
  for (int n = 0; n < N; ++n) {
    result.v[0] += x.v[n][0] + x.v[n][1];
    result.v[1] += x.v[n][2] + x.v[n][3];
  }
  return result;
}
__device__ inline RowValues total_of_lanes(RowValues x) {
#pragma unroll
  for (float& value : x.v) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, 1);
    value += __shfl_xor_sync(0xFFFFFFFFU, value, 2);
  }
  return x;
}
/// Whether any lane of the warp has a number that exceeds the limit or is NaN.
template <int R>
__device__ bool any_above(const RowValues (&x)[R], float limit) {
  bool within = true;
#pragma unroll
  for (int s = 0; s < R; ++s) within = within && x[s].v[0] <= limit && x[s].v[1] <= limit;
  return !__all_sync(0xFFFFFFFFU, within);
}

/// f(element, the number of its column), with 8 N numbers in shared memory at an address aligned to 8
template <int N, class F>
__device__ void each_of_column(Sum<N>& x, const float* columns, const F& f) {
  const auto* const pairs = reinterpret_cast<const float2*>(columns) + threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float2 pair = pairs[4 * n];
#pragma unroll
    for (int i = 0; i < 4; ++i) f(x.v[n][i], i % 2 == 0 ? pair.x : pair.y);
  }
}

/// Rows first ... of `to`, as far as there are `count`, = x times the number of each row; 0 where that is 0.
template <int N>
__device__ void put_rows(const StoredTokens::Head& to, int64_t first, int64_t count, const Sum<N>& x,
                         const RowValues& factor) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t row = first + lane / 4 + 8 * h;
    if (row >= count) continue;
    const float by = factor.v[h];
    const auto scaled = [&](int n, int i) { return by == 0 ? 0.0f : by * x.v[n][2 * h + i]; };
    auto* const place = static_cast<bfloat16*>(to.data) + to.begin + row * to.stride + lane % 4 * 2;
    if (to.is_bf16 && reinterpret_cast<uintptr_t>(place) % 4 == 0) {
#pragma unroll
      for (int n = 0; n < N; ++n) reinterpret_cast<uint32_t*>(place)[4 * n] = packed(scaled(n, 0), scaled(n, 1));
    } else {
#pragma unroll
      for (int n = 0; n < N; ++n) {
        to.put(row, 8 * n + lane % 4 * 2, scaled(n, 0));
        to.put(row, 8 * n + lane % 4 * 2 + 1, scaled(n, 1));
      }
    }
  }
}

/// 32 words for a warp, one computed by each lane.
struct Words {
  uint32_t own;

  template <class F>
  __device__ static Words of(const F& f) {
    return {f(static_cast<int>(threadIdx.x) % 32)};
  }
};
/// f(element, whether its bit is set): row i has word i, and column j has bit j of it.
template <class F>
__device__ void each_with_bit(Sum<4> (&x)[kStrips], const Words& words, const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int s = 0; s < kStrips; ++s) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint32_t word = __shfl_sync(0xFFFFFFFFU, words.own, lane / 4 + 8 * h + 16 * s) >> lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) f(x[s].v[n][2 * h + i], (word >> (8 * n + i) & 1) != 0);
      }
    }
  }
}
/// The same for one strip of 64 columns, whose first 32 columns have words 0 ... 15.
template <class F>
__device__ void each_with_bit(Sum<8>& x, const Words& words, const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t word = __shfl_sync(0xFFFFFFFFU, words.own, lane / 4 + 8 * h + 16 * half) >> lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) f(x.v[4 * half + n][2 * h + i], (word >> (8 * n + i) & 1) != 0);
      }
    }
  }
}
/// The same, where column j has word j % 32, and row i has bit i of it or, from column 32 on, bit 16 + i.
template <class F>
__device__ void each_with_column_bit(Sum<8>& x, const Words& words, const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t word = __shfl_sync(0xFFFFFFFFU, words.own, 8 * n + lane % 4 * 2 + i) >> lane / 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int h = 0; h < 2; ++h) f(x.v[4 * half + n][2 * h + i], (word >> (16 * half + 8 * h) & 1) != 0);
      }
    }
  }
}
/// f(column, element of x, of y, whether their bit is set): column j has word j, and row i has bit i of it.
template <class F>
__device__ void each_with_bit(Sum<4> (&x)[kStrips], Sum<4> (&y)[kStrips], const Words& words, const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t word = __shfl_sync(0xFFFFFFFFU, words.own, 8 * n + lane % 4 * 2 + i) >> lane / 4;
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          f(8 * n + lane % 4 * 2 + i, x[s].v[n][2 * h + i], y[s].v[n][2 * h + i], (word >> (16 * s + 8 * h) & 1) != 0);
        }
      }
    }
  }
}

#else

template <int K, int N>
void multiply_rows(Sum<N> (&c)[kStrips], const bfloat16* a, const bfloat16* b, int stride) {
  for (int s = 0; s < kStrips; ++s) {
    Left<K> left;
    left.load(a + 16 * s * stride, stride);
    multiply(c[s], left, b, stride);
  }
}
template <int N>
RowValues sums_of_lane(const Sum<N>& x) {
  RowValues result = RowValues::filled(0);
  for (int row = 0; row < 16; ++row) {
    for (const float value : x.v[row]) result.v[row] += value;
  }
  return result;
}
inline RowValues total_of_lanes(const RowValues& x) { return x; }
template <int R>
bool any_above(const RowValues (&x)[R], float limit) {
  for (const RowValues& strip : x) {
    for (const float value : strip.v) {
      if (!(value <= limit)) return true;
    }
  }
  return false;
}

template <int N, class F>
void each_of_column(Sum<N>& x, const float* columns, const F& f) {
  for (auto& row : x.v) {
    for (int j = 0; j < 8 * N; ++j) f(row[j], columns[j]);
  }
}

template <int N>
void put_rows(const StoredTokens::Head& to, int64_t first, int64_t count, const Sum<N>& x, const RowValues& factor) {
  for (int row = 0; row < 16 && first + row < count; ++row) {
    const float by = factor.v[row];
    for (int j = 0; j < 8 * N; ++j) to.put(first + row, j, by == 0 ? 0.0f : by * x.v[row][j]);
  }
}

struct Words {
  uint32_t all[32];

  template <class F>
  static Words of(const F& f) {
    Words result{};
    for (int i = 0; i < 32; ++i) result.all[i] = f(i);
    return result;
  }
};
template <class F>
void each_with_bit(Sum<4> (&x)[kStrips], const Words& words, const F& f) {
  for (int row = 0; row < kWarpRows; ++row) {
    for (int j = 0; j < 32; ++j) f(x[row / 16].v[row % 16][j], (words.all[row] >> j & 1) != 0);
  }
}
template <class F>
void each_with_bit(Sum<8>& x, const Words& words, const F& f) {
  for (int row = 0; row < 16; ++row) {
    for (int j = 0; j < 64; ++j) f(x.v[row][j], (words.all[row + j / 32 * 16] >> j % 32 & 1) != 0);
  }
}
template <class F>
void each_with_column_bit(Sum<8>& x, const Words& words, const F& f) {
  for (int row = 0; row < 16; ++row) {
    for (int j = 0; j < 64; ++j) f(x.v[row][j], (words.all[j % 32] >> (row + j / 32 * 16) & 1) != 0);
  }
}
template <class F>
void each_with_bit(Sum<4> (&x)[kStrips], Sum<4> (&y)[kStrips], const Words& words, const F& f) {
  for (int row = 0; row < kWarpRows; ++row) {
    for (int j = 0; j < 32; ++j) {
      f(j, x[row / 16].v[row % 16][j], y[row / 16].v[row % 16][j], (words.all[j] >> row & 1) != 0);
    }
  }
}

#endif

/// to (rows x columns, to_stride apart) = `rows` rows, or 0 for those that are not wanted(row), which are not read.
/// Runs alongside what follows: `to` may be read after wait_for_copies() and a sync(). A row is contiguous and begins
/// at a multiple of 16 bytes, on both sides; `threads` is the number of threads of the block.
template <int threads, int rows, int columns, class Team, class Wanted>
BOCHNER_DEVICE void begin_copy_rows(const Team& team, const bfloat16* from, int64_t from_stride, bfloat16* to,
                                    int to_stride, const Wanted& wanted) {
  constexpr int kEach = columns / 8;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  static_assert(threads % kEach == 0 && rows % (threads / kEach) == 0);
  const int first = team.rank() / kEach;
  const int column = team.rank() % kEach * 8;
  const bfloat16* source = from + first * from_stride + column;
  const auto place = static_cast<uint32_t>(__cvta_generic_to_shared(to + first * to_stride + column));
#pragma unroll
  for (int row = 0; row < rows; row += threads / kEach) {
    const bool there = wanted(first + row);
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place + static_cast<uint32_t>(2 * row * to_stride)),
        "l"(there ? source : from), "r"(there ? 16 : 0)
        : "memory");
    source += threads / kEach * from_stride;
  }
#else
  for (int i = team.rank(); i < rows * kEach; i += team.size()) {
    const int row = i / kEach;
    const int column = i % kEach * 8;
    auto* const place = reinterpret_cast<Eight*>(to + row * to_stride + column);
    *place = wanted(row) ? *reinterpret_cast<const Eight*>(from + row * from_stride + column) : Eight{};
  }
#endif
}

/// The same for `count` numbers in f32, of which at most `there` exist.
template <int threads, int count, class Team>
BOCHNER_DEVICE void begin_copy_floats(const Team& team, const float* from, int there, float* to) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  static_assert(count <= threads);
  const int i = team.rank();
  if (i < count) {
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to + i))),
        "l"(i < there ? from + i : from), "r"(i < there ? 4 : 0)
        : "memory");
  }
#else
  for (int i = team.rank(); i < count; i += team.size()) to[i] = i < there ? from[i] : 0.0f;
#endif
}

}  // namespace bochner::cuda
