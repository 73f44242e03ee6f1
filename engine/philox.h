// Philox4x32-10 itself (Salmon et al., SC 2011), for kernels of both backends that draw, or draw again, the word at a
// place: word i of the stream of `seed` is lane i % 4 of philox(counter = i / 4, key = seed). Code outside kernels uses
// engine/random.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/math.h"

#if defined(__AVX2__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

namespace bochner {

inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53U;
inline constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57U;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9U;  // golden ratio
inline constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85U;  // sqrt(3) - 1
inline constexpr int kPhiloxRounds = 10;

/// Four words, as a type that CUDA kernels can use.
struct PhiloxWords {
  uint32_t x, y, z, w;
};

/// a b, by one instruction on a GPU; the plain product takes two, since the compiler also adds an upper half of 0.
BOCHNER_HD inline uint64_t philox_wide_product(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return static_cast<uint64_t>(a) * b;
#endif
}

/// Ten rounds: (x, y, z, w) -> (hi(M1 z) ^ y ^ k0, lo(M1 z), hi(M0 x) ^ w ^ k1, lo(M0 x)), the key growing each round.
BOCHNER_HD inline PhiloxWords philox_rounds(PhiloxWords counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t a = philox_wide_product(kPhiloxMultiplier0, counter.x);
    const uint64_t b = philox_wide_product(kPhiloxMultiplier1, counter.z);
    counter = {static_cast<uint32_t>(b >> 32) ^ counter.y ^ key0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter.w ^ key1, static_cast<uint32_t>(a)};
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return counter;
}

/// Words 4 block ... 4 block + 3 of the stream of `seed`.
BOCHNER_HD inline PhiloxWords philox_at(uint64_t seed, uint64_t block) {
  return philox_rounds({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                       static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

/// The word at a place. Neighbouring places share a block, so prefer philox_at or PhiloxWindow in loops.
BOCHNER_HD inline uint32_t philox_word(uint64_t seed, uint64_t place) {
  const PhiloxWords words = philox_at(seed, place / 4);
  const uint32_t lanes[4] = {words.x, words.y, words.z, words.w};
  return lanes[place % 4];
}

// ---- words to numbers, the same on every device

/// (x + 1/2) 2^-32, in (0, 1].
BOCHNER_HD inline float uniform_from(uint32_t x) { return math::fma(static_cast<float>(x), 0x1p-32f, 0x1p-33f); }

/// (z + 1/2) 2^-53 with z of 53 bits from two words, in (0, 1].
BOCHNER_HD inline double uniform_from(uint32_t x, uint32_t y) {
  const uint64_t z = x ^ (static_cast<uint64_t>(y) << 21);
  return static_cast<double>(z) * 0x1p-53 + 0x1p-54;
}

__extension__ typedef unsigned __int128 uint128;  // NOLINT: `using` takes no __extension__

/// floor(x range / 2^64): an integer in [0, range) from 64 uniform bits. Its bias is less than range / 2^64.
BOCHNER_HD inline uint64_t scaled_to(uint64_t range, uint64_t x) {
  return static_cast<uint64_t>(static_cast<uint128>(x) * range >> 64);
}

template <class T>
struct NormalPair {
  T first, second;
};

/// sqrt(-2 ln u) (sin, cos)(2 pi v), with u and v uniform from x and y (Box and Muller, 1958). Quarter turns are
/// subtracted from y as integers, so the angle loses no bits.
BOCHNER_HD inline NormalPair<float> normal_pair(uint32_t x, uint32_t y) {
  const float radius = math::sqrt(-2.0f * math::log(uniform_from(x)));
  const uint32_t quadrant = (y + 0x20000000U) >> 30;
  const auto turn = static_cast<float>(static_cast<int32_t>(y - (quadrant << 30)));
  const float angle = math::fma(turn, 1.46291808e-9f, 7.3145904e-10f);  // 2 pi 2^-32 (turn + 1/2)
  const math::SinCos<float> unit = math::sin_cos_of_quadrant(angle, static_cast<int32_t>(quadrant));
  return {radius * unit.sin, radius * unit.cos};
}

/// The same in f64, with u and v of 53 bits each.
BOCHNER_HD inline NormalPair<double> normal_pair(uint32_t x0, uint32_t x1, uint32_t y0, uint32_t y1) {
  const double radius = math::sqrt(-2.0 * math::log(uniform_from(x0, x1)));
  const double angle = 6.283185307179586 * uniform_from(y0, y1);
  return {radius * math::sin(angle), radius * math::cos(angle)};
}

// ---- many words at once, on the CPU

#if !defined(__CUDACC__)

/// The number of blocks that philox_batch makes at once by default, and the smallest.
inline constexpr int64_t kPhiloxBatch = 32;
inline constexpr int64_t kSmallPhiloxBatch = 8;

#if defined(__AVX512F__)
inline constexpr int kPhiloxLanes = 8;
inline constexpr int kPhiloxVectors = 4;  ///< computed side by side: as many as hide the latency of a product
#else
inline constexpr int kPhiloxLanes = 4;
inline constexpr int kPhiloxVectors = 2;
#endif

/// One word in the lower half of each 64-bit lane; upper halves may hold anything.
using PhiloxVector [[gnu::vector_size(8 * kPhiloxLanes)]] = uint64_t;

/// The 64-bit products of the lower halves, by one instruction; compilers emit several for the plain product.
inline PhiloxVector philox_product(PhiloxVector a, uint32_t b) {
#if defined(__AVX512F__)
  return reinterpret_cast<PhiloxVector>(  // the unmasked intrinsic trips a warning of GCC 12
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), _mm512_set1_epi64(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<PhiloxVector>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), _mm256_set1_epi64x(b)));
#else
  return (a & 0xFFFFFFFFU) * b;
#endif
}

/// Stores the words of the blocks in the lanes: four vectors, with one word of each block, are put in stream order.
inline void store_philox(PhiloxVector x, PhiloxVector y, PhiloxVector z, PhiloxVector w, uint32_t* words) {
  const PhiloxVector xy = (x & 0xFFFFFFFFU) | y << 32;
  const PhiloxVector zw = (z & 0xFFFFFFFFU) | w << 32;
#if defined(__AVX512F__)
  const PhiloxVector lower = __builtin_shufflevector(xy, zw, 0, 8, 1, 9, 2, 10, 3, 11);
  const PhiloxVector upper = __builtin_shufflevector(xy, zw, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  const PhiloxVector lower = __builtin_shufflevector(xy, zw, 0, 4, 1, 5);
  const PhiloxVector upper = __builtin_shufflevector(xy, zw, 2, 6, 3, 7);
#endif
  memcpy(words, &lower, sizeof(lower));
  memcpy(words + 2 * kPhiloxLanes, &upper, sizeof(upper));
}

/// Words 4 first ... 4 (first + Blocks) - 1 of the stream, in order; Blocks is a multiple of 8.
template <int64_t Blocks = kPhiloxBatch>
inline void philox_batch(uint64_t seed, uint64_t first, uint32_t* words) {
  constexpr int kVectors = Blocks / kPhiloxLanes < kPhiloxVectors ? Blocks / kPhiloxLanes : kPhiloxVectors;
  PhiloxVector lanes{};
  for (int i = 0; i < kPhiloxLanes; ++i) lanes[i] = static_cast<uint64_t>(i);
  for (int64_t block = 0; block < Blocks; block += kVectors * kPhiloxLanes) {
    PhiloxVector x[kVectors], y[kVectors], z[kVectors], w[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      x[v] = lanes + (first + static_cast<uint64_t>(block + int64_t{v} * kPhiloxLanes));
      y[v] = x[v] >> 32;
      z[v] = PhiloxVector{};
      w[v] = PhiloxVector{};
    }
    auto key0 = static_cast<uint32_t>(seed);
    auto key1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      for (int v = 0; v < kVectors; ++v) {
        const PhiloxVector a = philox_product(x[v], kPhiloxMultiplier0);
        const PhiloxVector b = philox_product(z[v], kPhiloxMultiplier1);
        x[v] = (b >> 32) ^ y[v] ^ key0;
        y[v] = b;
        z[v] = (a >> 32) ^ w[v] ^ key1;
        w[v] = a;
      }
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
    for (int v = 0; v < kVectors; ++v) {
      store_philox(x[v], y[v], z[v], w[v], words + 4 * (block + int64_t{v} * kPhiloxLanes));
    }
  }
}

/// A window of the stream on the stack, for loops on the CPU:
///
///   PhiloxWindow window;
///   const uint32_t* words = window.draw(seed, place, count);    // words[i] is word place + i, count <= kWords
class PhiloxWindow {
 public:
  static constexpr int64_t kWords = 1024;

  /// `count` words from `place` on, valid until the next call.
  const uint32_t* draw(uint64_t seed, uint64_t place, int64_t count) {
    const auto skip = static_cast<int64_t>(place % 4);
    int64_t made = 0;
    const auto next = [&]<int64_t Blocks>(std::integral_constant<int64_t, Blocks>) {
      philox_batch<Blocks>(seed, place / 4 + static_cast<uint64_t>(made / 4), words_ + made);
      made += 4 * Blocks;
    };
    while (made + 4 * (kPhiloxBatch - kSmallPhiloxBatch) < skip + count)
      next(std::integral_constant<int64_t, kPhiloxBatch>());
    while (made < skip + count) next(std::integral_constant<int64_t, kSmallPhiloxBatch>());
    return words_ + skip;
  }

 private:
  alignas(64) uint32_t words_[kWords + 4 * kPhiloxBatch];
};

#endif

}  // namespace bochner
