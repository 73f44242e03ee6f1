// More operations on the matrices of warp_tile.h, for warps with several groups of 16 rows, which read a factor in
// shared memory once for all of them, by ldmatrix. As there, only this file knows which lane has which element.
//
//   Left<4> x[2];  Sum<2> u[2];                      // two groups: 32 x 64 and 32 x 16
//   multiply_rows(u, x, omega, stride);              // u += x omega^T, omega (16 x 64) in shared memory
//   Left<1> f[2] = ...;
//   multiply_columns(o, f, sums, stride);            // o (32 x 64) += f sums, sums (16 x 64) in shared memory
#pragma once

#include "engine/cuda/parts/warp_tile.h"

namespace bochner::cuda {

#if defined(__CUDACC__)

/// Four 8 x 8 blocks, at the positions given by lanes 0 ... 7, 8 ... 15 and so on; all of them transposed or none.
template <bool transposed>
__device__ void load_blocks([[maybe_unused]] uint32_t (&v)[4], [[maybe_unused]] const bfloat16* row) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(at));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(at));
  }
#else
  __trap();  // never chosen on such a card
#endif
}

__device__ inline void multiply_block([[maybe_unused]] float (&c)[4], [[maybe_unused]] const uint32_t (&a)[4],
                                      [[maybe_unused]] uint32_t low, [[maybe_unused]] uint32_t high) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
      "%2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
#endif
}

/// R groups: multiply_rows and multiply_columns below.
template <int R, int N, int K>
__device__ void multiply_rows_of(Sum<N>* c, const Left<K>* a, const bfloat16* b, int stride) {
  static_assert(N % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bfloat16* at = b + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < K; ++k) {
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t v[4];
      load_blocks<false>(v, at + 8 * n * stride + 16 * k);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        multiply_block(c[r].v[n], a[r].v[k], v[0], v[1]);
        multiply_block(c[r].v[n + 1], a[r].v[k], v[2], v[3]);
      }
    }
  }
}

template <int R, int N, int K>
__device__ void multiply_columns_of(Sum<N>* c, const Left<K>* a, const bfloat16* b, int stride) {
  static_assert(N % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bfloat16* at = b + (lane / 8 % 2 * 8 + lane % 8) * stride + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < K; ++k) {
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t v[4];
      load_blocks<true>(v, at + 16 * k * stride + 8 * n);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        multiply_block(c[r].v[n], a[r].v[k], v[0], v[1]);
        multiply_block(c[r].v[n + 1], a[r].v[k], v[2], v[3]);
      }
    }
  }
}

/// Rows first ... first + 15 of x; rows from `length` on repeat the last one.
template <int K>
__device__ Left<K> load_left(const bfloat16* x, int64_t stride, int64_t first, int64_t length) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t low = first + lane / 4 < length ? first + lane / 4 : length - 1;
  const int64_t high = first + lane / 4 + 8 < length ? first + lane / 4 + 8 : length - 1;
  const bfloat16* upper = x + low * stride + lane % 4 * 2;
  const bfloat16* lower = x + high * stride + lane % 4 * 2;
  Left<K> result;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    result.v[k][0] = *reinterpret_cast<const uint32_t*>(upper + 16 * k);
    result.v[k][1] = *reinterpret_cast<const uint32_t*>(lower + 16 * k);
    result.v[k][2] = *reinterpret_cast<const uint32_t*>(upper + 16 * k + 8);
    result.v[k][3] = *reinterpret_cast<const uint32_t*>(lower + 16 * k + 8);
  }
  return result;
}

/// 16 rows of a tile in shared memory.
template <int K>
__device__ Left<K> read_left(const bfloat16* tile, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bfloat16* at = tile + lane % 16 * stride + lane / 16 * 8;
  Left<K> result;
#pragma unroll
  for (int k = 0; k < K; ++k) load_blocks<false>(result.v[k], at + 16 * k);
  return result;
}

/// The same numbers as f32.
template <int K>
__device__ Sum<2 * K> widened(const Left<K>& x) {
  Sum<2 * K> result;
#pragma unroll
  for (int k = 0; k < K; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      result.v[2 * k + i / 2][i % 2 * 2] = __uint_as_float(x.v[k][i] << 16);
      result.v[2 * k + i / 2][i % 2 * 2 + 1] = __uint_as_float(x.v[k][i] & 0xFFFF0000U);
    }
  }
  return result;
}

/// x as the left factor of a product; x becomes the rounded numbers.
template <int K>
__device__ Left<K> rounded(Sum<2 * K>& x) {
  const Left<K> result = Left<K>::of(x);
  x = widened(result);
  return result;
}

/// Reduces by f what each lane has gathered through RowValues::at.
template <class F>
__device__ RowValues joined(RowValues x, const F& f) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    x.v[r] = f(x.v[r], __shfl_xor_sync(0xFFFFFFFFU, x.v[r], 1));
    x.v[r] = f(x.v[r], __shfl_xor_sync(0xFFFFFFFFU, x.v[r], 2));
  }
  return x;
}

/// x, rounded, as 16 rows of a tile.
template <int N>
__device__ void put_rows(const Sum<N>& x, bfloat16* tile, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  bfloat16* at = tile + lane / 4 * stride + lane % 4 * 2;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    *reinterpret_cast<uint32_t*>(at + 8 * n) = packed(x.v[n][0], x.v[n][1]);
    *reinterpret_cast<uint32_t*>(at + 8 * stride + 8 * n) = packed(x.v[n][2], x.v[n][3]);
  }
}

/// The same in global memory: neighbouring lanes gather a row's words, so that each of them writes whole sectors. Rows
/// are aligned to 8 bytes.
template <int N>
__device__ void write_rows(const Sum<N>& x, bfloat16* to, int64_t stride) {
  static_assert(N % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool odd = lane % 2 == 1;
  bfloat16* at = to + lane / 4 * stride + (odd ? 8 : 0) + lane % 4 / 2 * 4;
#pragma unroll
  for (int n = 0; n < N; n += 2) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t even_word = packed(x.v[n][i], x.v[n][i + 1]);
      const uint32_t odd_word = packed(x.v[n + 1][i], x.v[n + 1][i + 1]);
      const uint32_t other = __shfl_xor_sync(0xFFFFFFFFU, odd ? even_word : odd_word, 1);
      const uint2 both = odd ? make_uint2(other, odd_word) : make_uint2(even_word, other);
      *reinterpret_cast<uint2*>(at + i * 4 * stride + 8 * n) = both;
    }
  }
}

#else

template <int R, int N, int K>
void multiply_rows_of(Sum<N>* c, const Left<K>* a, const bfloat16* b, int stride) {
  for (int r = 0; r < R; ++r) multiply(c[r], a[r], b, stride);
}

template <int R, int N, int K>
void multiply_columns_of(Sum<N>* c, const Left<K>* a, const bfloat16* b, int stride) {
  for (int r = 0; r < R; ++r) {
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < 16 * K; ++k) {
        for (int n = 0; n < 8 * N; ++n) {
          c[r].v[row][n] += a[r].v[row][k] * static_cast<float>(b[k * stride + n]);
        }
      }
    }
  }
}

template <int K>
Left<K> load_left(const bfloat16* x, int64_t stride, int64_t first, int64_t length) {
  Left<K> result;
  for (int row = 0; row < 16; ++row) {
    const bfloat16* from = x + (first + row < length ? first + row : length - 1) * stride;
    for (int k = 0; k < 16 * K; ++k) result.v[row][k] = static_cast<float>(from[k]);
  }
  return result;
}

template <int K>
Left<K> read_left(const bfloat16* tile, int stride) {
  Left<K> result;
  result.load(tile, stride);
  return result;
}

template <int K>
Sum<2 * K> widened(const Left<K>& x) {
  Sum<2 * K> result;
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16 * K; ++k) result.v[row][k] = x.v[row][k];
  }
  return result;
}

template <int K>
Left<K> rounded(Sum<2 * K>& x) {
  const Left<K> result = Left<K>::of(x);
  x = widened(result);
  return result;
}

template <class F>
RowValues joined(const RowValues& x, const F&) {
  return x;
}

template <int N>
void put_rows(const Sum<N>& x, bfloat16* tile, int stride) {
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8 * N; ++column) tile[row * stride + column] = bfloat16(x.v[row][column]);
  }
}

template <int N>
void write_rows(const Sum<N>& x, bfloat16* to, int64_t stride) {
  put_rows(x, to, static_cast<int>(stride));
}

#endif

/// The larger of two numbers, neither of which is NaN, as one instruction.
BOCHNER_DEVICE inline float larger(float a, float b) {
#if defined(__CUDACC__)
  return fmaxf(a, b);
#else
  return a > b ? a : b;
#endif
}

/// c += a b^T with b (8 N x 16 K) in shared memory, rows `stride` apart and aligned to 16.
template <int R, int N, int K>
BOCHNER_DEVICE void multiply_rows(Sum<N> (&c)[R], const Left<K> (&a)[R], const bfloat16* b, int stride) {
  multiply_rows_of<R>(c, a, b, stride);
}
/// c += a b with b (16 K x 8 N) in shared memory, likewise.
template <int R, int N, int K>
BOCHNER_DEVICE void multiply_columns(Sum<N> (&c)[R], const Left<K> (&a)[R], const bfloat16* b, int stride) {
  multiply_columns_of<R>(c, a, b, stride);
}
/// The same for a single group.
template <int N, int K>
BOCHNER_DEVICE void multiply_rows(Sum<N>& c, const Left<K>& a, const bfloat16* b, int stride) {
  multiply_rows_of<1>(&c, &a, b, stride);
}
template <int N, int K>
BOCHNER_DEVICE void multiply_columns(Sum<N>& c, const Left<K>& a, const bfloat16* b, int stride) {
  multiply_columns_of<1>(&c, &a, b, stride);
}

/// a_i . b_i for each row.
template <int K>
BOCHNER_DEVICE RowValues dots(const Left<K>& a, const Left<K>& b) {
  Sum<2 * K> x = widened(a);
  Sum<2 * K> y = widened(b);
  RowValues sum = RowValues::filled(0);
  x.zip([&](Place at, float from, float by) { sum.at(at) += from * by; }, y);
  return joined(sum, Plus{});
}

/// Stores two numbers, rounded, at a position aligned to 4.
BOCHNER_DEVICE inline void store_pair(bfloat16* to, float first, float second) {
#if defined(__CUDACC__)
  *reinterpret_cast<uint32_t*>(to) = packed(first, second);
#else
  to[0] = bfloat16(first);
  to[1] = bfloat16(second);
#endif
}

/// Synchronises the lanes of a warp: matrices belong to the whole warp.
BOCHNER_DEVICE inline void join_lanes() {
#if defined(__CUDACC__)
  __syncwarp();
#endif
}

/// f(i) for i in [0, count), spread over the `threads` threads of a block.
template <int count, int threads, class Team, class F>
BOCHNER_DEVICE void spread(const Team& team, const F& f) {
#if defined(__CUDACC__)
#pragma unroll
  for (int round = 0; round * threads < count; ++round) {
    const int i = team.rank() + round * threads;
    if ((round + 1) * threads <= count || i < count) f(i);
  }
#else
  for (int i = team.rank(); i < count; i += team.size()) f(i);
#endif
}

/// f(row, column) for every eight columns of a tile of `rows` x D, as spread() does.
template <int D, int rows, int threads, class Team, class F>
BOCHNER_DEVICE void spread_tile(const Team& team, const F& f) {
  constexpr int kEach = D / 8;
#if defined(__CUDACC__)
  constexpr int kAtOnce = threads / kEach;  // rows
  static_assert(threads % kEach == 0 && rows % kAtOnce == 0);
  const int first = team.rank() / kEach;
  const int column = team.rank() % kEach * 8;
#pragma unroll
  for (int row = 0; row < rows; row += kAtOnce) f(first + row, column);
#else
  for (int i = team.rank(); i < rows * kEach; i += team.size()) f(i / kEach, i % kEach * 8);
#endif
}

/// Copies 16 bytes into shared memory alongside what follows, zeros if not `there`: they may be read after
/// wait_for_copies() and a sync().
template <class T>
BOCHNER_DEVICE void begin_sixteen(const T* from, T* to, bool there = true) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
      "l"(from), "r"(there ? 16 : 0)
      : "memory");
#else
  *reinterpret_cast<Eight*>(to) = there ? *reinterpret_cast<const Eight*>(from) : Eight{};
#endif
}

/// A tile of `rows` x D from rows `stride` apart.
template <int D, int rows, int threads, class Team>
BOCHNER_DEVICE void begin_tile(const Team& team, const bfloat16* from, int64_t stride, bfloat16* to, int to_stride) {
#if defined(__CUDACC__)
  constexpr int kEach = D / 8;
  constexpr int kAtOnce = threads / kEach;
  static_assert(threads % kEach == 0 && rows % kAtOnce == 0);
  from += team.rank() / kEach * stride + team.rank() % kEach * 8;
  to += team.rank() / kEach * to_stride + team.rank() % kEach * 8;
#pragma unroll
  for (int row = 0; row < rows; row += kAtOnce, from += kAtOnce * stride) begin_sixteen(from, to + row * to_stride);
#else
  spread_tile<D, rows, threads>(
      team, [&](int row, int column) { begin_sixteen(from + row * stride + column, to + row * to_stride + column); });
#endif
}

/// `count` numbers, a multiple of 4, with both addresses aligned to 16.
template <int count, int threads, class Team>
BOCHNER_DEVICE void begin_numbers(const Team& team, const float* from, float* to) {
  spread<count / 4, threads>(team, [&](int i) { begin_sixteen(from + 4 * i, to + 4 * i); });
}

}  // namespace bochner::cuda
