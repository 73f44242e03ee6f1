// Matrix products of bf16 factors on tensor cores, 16 rows per warp, with sums in f32. To its users, what a warp holds
// is one matrix; only this file knows which lane has which element. On the emulated backend a single thread has the
// whole matrix, so that kernels written in these terms are tested without a card.
//
//   Left<4> q; q.load(rows, stride);                 // 16 x 64, bf16
//   Sum<8> s = product<8>(q, keys, stride);          // q keys^T (16 x 64, f32), keys (64 x 64) bf16 in shared memory
//   multiply(s, q, keys, stride);                    // s += q keys^T
//   s.each([&](int row, int column, float& x) { ... });
//   const RowValues top = s.rows([](float a, float b) { return a > b ? a : b; });
#pragma once

#include "engine/cuda/parts/launch.h"
#include "engine/dtype.h"

namespace bochner::cuda {

#if defined(__CUDACC__)

__device__ inline uint32_t packed(float low, float high) {
  uint32_t word = 0;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#endif
  return word;
}

/// x as the tensor cores see it.
__device__ inline float round_to_bf16(float x) { return __uint_as_float(packed(0, x) & 0xFFFF0000U); }

/// 2^x, to about 22 bits.
__device__ inline float fast_exp2(float x) {
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// With an error of about 2^-20 for |x| up to a few tens.
__device__ inline void fast_sincos(float x, float& sine, float& cosine) { __sincosf(x, &sine, &cosine); }

/// The position of an element; `slot` is only for RowValues.
struct Place {
  int row, column, slot;
};

/// A number for each of the 16 rows.
struct RowValues {
  float v[2];  // rows lane / 4 and lane / 4 + 8, the same in the four lanes that share them

  /// The number of the element's row.
  __device__ float& at(Place place) { return v[place.slot]; }

  __device__ static RowValues filled(float x) { return {{x, x}}; }
  /// 16 numbers from memory.
  __device__ static RowValues load(const float* values) {
    const int row = static_cast<int>(threadIdx.x) % 32 / 4;
    return {{values[row], values[row + 8]}};
  }
  template <class F>
  __device__ void each(const F& f) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    f(lane / 4, v[0]);
    f(lane / 4 + 8, v[1]);
  }
  template <class F>
  __device__ static RowValues of(const RowValues& a, const RowValues& b, const F& f) {
    return {{f(a.v[0], b.v[0]), f(a.v[1], b.v[1])}};
  }
  /// Whether this lane is the first of those that hold a row.
  __device__ static bool first() { return threadIdx.x % 4 == 0; }
};

/// 16 x 8 N
template <int N>
struct Sum {
  float v[N][4];

  __device__ void clear() {
#pragma unroll
    for (int n = 0; n < N; ++n) v[n][0] = v[n][1] = v[n][2] = v[n][3] = 0;
  }
  template <class F>
  __device__ void each(const F& f) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) f(lane / 4 + i / 2 * 8, 8 * n + lane % 4 * 2 + i % 2, v[n][i]);
    }
  }
  /// f(row, column, element, the row's number)
  template <class F>
  __device__ void each(const RowValues& rows, const F& f) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) f(lane / 4 + i / 2 * 8, 8 * n + lane % 4 * 2 + i % 2, v[n][i], rows.v[i / 2]);
    }
  }
  /// f(place, element of this, elements of others)
  template <class F, class... Others>
  __device__ void zip(const F& f, Others&... others) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        f(Place{lane / 4 + i / 2 * 8, 8 * n + lane % 4 * 2 + i % 2, i / 2}, v[n][i], others.v[n][i]...);
      }
    }
  }
  /// f(element of this, element of other) at each place.
  template <class F>
  __device__ void with(const Sum& other, const F& f) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) f(v[n][i], other.v[n][i]);
    }
  }
  /// Each row reduced by f.
  template <class F>
  __device__ RowValues rows(const F& f) const {
    RowValues result{{v[0][0], v[0][2]}};
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if (n > 0) {
        result.v[0] = f(result.v[0], v[n][0]);
        result.v[1] = f(result.v[1], v[n][2]);
      }
      result.v[0] = f(result.v[0], v[n][1]);
      result.v[1] = f(result.v[1], v[n][3]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      result.v[r] = f(result.v[r], __shfl_xor_sync(0xFFFFFFFFU, result.v[r], 1));
      result.v[r] = f(result.v[r], __shfl_xor_sync(0xFFFFFFFFU, result.v[r], 2));
    }
    return result;
  }
};

/// 16 x 16 K, bf16: the left factor of a product.
template <int K>
struct Left {
  uint32_t v[K][4];

  __device__ void load(const bfloat16* rows, int64_t stride) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bfloat16* at = rows + lane / 4 * stride + lane % 4 * 2;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      v[k][0] = *reinterpret_cast<const uint32_t*>(at + 16 * k);
      v[k][1] = *reinterpret_cast<const uint32_t*>(at + 16 * k + 8 * stride);
      v[k][2] = *reinterpret_cast<const uint32_t*>(at + 16 * k + 8);
      v[k][3] = *reinterpret_cast<const uint32_t*>(at + 16 * k + 8 * stride + 8);
    }
  }
  /// The sums of an earlier product, rounded.
  __device__ static Left of(const Sum<2 * K>& from) {
    Left result;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      result.v[k][0] = packed(from.v[2 * k][0], from.v[2 * k][1]);
      result.v[k][1] = packed(from.v[2 * k][2], from.v[2 * k][3]);
      result.v[k][2] = packed(from.v[2 * k + 1][0], from.v[2 * k + 1][1]);
      result.v[k][3] = packed(from.v[2 * k + 1][2], from.v[2 * k + 1][3]);
    }
    return result;
  }
};

/// c += a b^T with b (8 N x 16 K) in shared memory, rows `stride` apart.
template <int N, int K>
__device__ void multiply(Sum<N>& c, const Left<K>& a, const bfloat16* b, int stride) {
  __syncwarp();  // the product belongs to the whole warp
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bfloat16* at = b + lane / 4 * stride + lane % 4 * 2;
#pragma unroll
  for (int k = 0; k < K; ++k) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      [[maybe_unused]] const uint32_t low = *reinterpret_cast<const uint32_t*>(at + 8 * n * stride + 16 * k);
      [[maybe_unused]] const uint32_t high = *reinterpret_cast<const uint32_t*>(at + 8 * n * stride + 16 * k + 8);
#if __CUDA_ARCH__ >= 800
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
          "%2, %3};"
          : "+f"(c.v[n][0]), "+f"(c.v[n][1]), "+f"(c.v[n][2]), "+f"(c.v[n][3])
          : "r"(a.v[k][0]), "r"(a.v[k][1]), "r"(a.v[k][2]), "r"(a.v[k][3]), "r"(low), "r"(high));
#else
      __trap();  // never chosen on such a card
#endif
    }
  }
}

/// How many of a block's `warps` this thread is part of, and the number of the s-th of these.
template <int warps>
inline constexpr int kWarpShare = 1;
template <class Team>
__device__ int warp_of(const Team& team, int) {
  return team.rank() / 32;
}

#else

inline float round_to_bf16(float x) { return static_cast<float>(bfloat16(x)); }
inline float fast_exp2(float x) { return std::exp2(x); }
inline void fast_sincos(float x, float& sine, float& cosine) {
  sine = std::sin(x);
  cosine = std::cos(x);
}

struct Place {
  int row, column, slot;
};

struct RowValues {
  float v[16];

  float& at(Place place) { return v[place.slot]; }

  static RowValues filled(float x) {
    RowValues result{};
    for (float& value : result.v) value = x;
    return result;
  }
  static RowValues load(const float* values) {
    RowValues result{};
    for (int row = 0; row < 16; ++row) result.v[row] = values[row];
    return result;
  }
  template <class F>
  void each(const F& f) {
    for (int row = 0; row < 16; ++row) f(row, v[row]);
  }
  template <class F>
  static RowValues of(const RowValues& a, const RowValues& b, const F& f) {
    RowValues result{};
    for (int row = 0; row < 16; ++row) result.v[row] = f(a.v[row], b.v[row]);
    return result;
  }
  static bool first() { return true; }
};

template <int N>
struct Sum {
  float v[16][8 * N];

  void clear() {
    for (auto& row : v) {
      for (float& x : row) x = 0;
    }
  }
  template <class F>
  void each(const F& f) {
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8 * N; ++column) f(row, column, v[row][column]);
    }
  }
  template <class F>
  void each(const RowValues& rows, const F& f) {
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8 * N; ++column) f(row, column, v[row][column], rows.v[row]);
    }
  }
  template <class F, class... Others>
  void zip(const F& f, Others&... others) {
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8 * N; ++column) {
        f(Place{row, column, row}, v[row][column], others.v[row][column]...);
      }
    }
  }
  template <class F>
  void with(const Sum& other, const F& f) {
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8 * N; ++column) f(v[row][column], other.v[row][column]);
    }
  }
  template <class F>
  RowValues rows(const F& f) const {
    RowValues result{};
    for (int row = 0; row < 16; ++row) {
      result.v[row] = v[row][0];
      for (int column = 1; column < 8 * N; ++column) result.v[row] = f(result.v[row], v[row][column]);
    }
    return result;
  }
};

template <int K>
struct Left {
  float v[16][16 * K];

  void load(const bfloat16* rows, int64_t stride) {
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < 16 * K; ++k) v[row][k] = static_cast<float>(rows[row * stride + k]);
    }
  }
  static Left of(const Sum<2 * K>& from) {
    Left result;
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < 16 * K; ++k) result.v[row][k] = static_cast<float>(bfloat16(from.v[row][k]));
    }
    return result;
  }
};

template <int N, int K>
void multiply(Sum<N>& c, const Left<K>& a, const bfloat16* b, int stride) {
  for (int row = 0; row < 16; ++row) {
    for (int n = 0; n < 8 * N; ++n) {
      float sum = c.v[row][n];
      for (int k = 0; k < 16 * K; ++k) sum += a.v[row][k] * static_cast<float>(b[n * stride + k]);
      c.v[row][n] = sum;
    }
  }
}

template <int warps>
inline constexpr int kWarpShare = warps;
template <class Team>
int warp_of(const Team&, int s) {
  return s;
}

#endif

/// a b^T with b (8 N x 16 K) in shared memory, rows `stride` apart.
template <int N, int K>
BOCHNER_DEVICE Sum<N> product(const Left<K>& a, const bfloat16* b, int stride) {
  Sum<N> c;
  c.clear();
  multiply(c, a, b, stride);
  return c;
}

/// Eight bf16 numbers, moved at once.
struct alignas(16) Eight {
  uint16_t at[8];
};

/// Waits until all copies that this thread started are done.
BOCHNER_DEVICE inline void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace bochner::cuda
