#include "engine/cpu/bf16/pack.h"

#include "engine/cpu/parts/stored.h"
#include "engine/cpu/parts/transpose.h"

namespace bochner::cpu {
namespace {

/// 16 pairs: the first number of each in the lower half of a word.
struct __attribute__((may_alias)) Pairs {
  uint32_t word[kBf16Tile];
};

#if defined(__AVX512BW__)
inline __m512i words_of(const float* from, __mmask16 mask) {
  return _mm512_castps_si512(_mm512_maskz_loadu_ps(mask, from));
}
inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= kBf16Tile ? 0xFFFFU : (1U << count) - 1);
}
/// The halves of 32 numbers: those of `low` in the lower 256 bits.
inline __m512i halves_of(__m512i low, __m512i high) {
#if defined(__AVX512BF16__)
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_castsi512_ps(high), _mm512_castsi512_ps(low)));
#else
  const auto half = [](__m512i words) {
    return _mm512_maskz_cvtepi32_epi16(
        0xFFFF, reinterpret_cast<__m512i>(rounded_words(reinterpret_cast<WordVector>(words)) >> 16));
  };
  return _mm512_maskz_inserti64x4(0xFF, _mm512_castsi256_si512(half(low)), half(high), 1);
#endif
}
#else
inline uint32_t rounded(float x) { return rounded_words(math::bits_as<uint32_t>(x)) >> 16; }
inline uint32_t rounded(bfloat16 x) { return x.bits; }
#endif

/// Pairs of consecutive numbers of a row, which has `count`; those beyond are 0.
template <class S>
inline void pairs_along(const S* row, int64_t count, Pairs& to) {
#if defined(__AVX512BW__)
  if constexpr (std::is_same_v<S, float>) {
    const __m512i low = words_of(row, first_lanes(count));
    const __m512i high = count > kBf16Tile ? words_of(row + kBf16Tile, first_lanes(count - kBf16Tile)) : __m512i{};
    _mm512_storeu_si512(&to, halves_of(low, high));
  } else {
    const auto mask = static_cast<__mmask32>(count >= kBf16Depth ? 0xFFFFFFFFU : (1U << count) - 1);
    _mm512_storeu_si512(&to, _mm512_maskz_loadu_epi16(mask, row));
  }
#else
  for (int64_t p = 0; p < kBf16Tile; ++p) {
    const uint32_t low = 2 * p < count ? rounded(row[2 * p]) : 0;
    const uint32_t high = 2 * p + 1 < count ? rounded(row[2 * p + 1]) : 0;
    to.word[p] = low | (high << 16);
  }
#endif
}

/// Pairs of numbers of two rows, `count` of each; `second` may be null, for zeros.
template <class S>
inline void pairs_across(const S* first, const S* second, int64_t count, Pairs& to) {
#if defined(__AVX512BW__)
  const __mmask16 mask = first_lanes(count);
  if constexpr (std::is_same_v<S, float>) {
    const __m512i high = second == nullptr ? __m512i{} : words_of(second, mask);
    const auto pairs =
        pairs_of(reinterpret_cast<Vector<float>>(words_of(first, mask)), reinterpret_cast<Vector<float>>(high));
    _mm512_storeu_si512(&to, reinterpret_cast<__m512i>(pairs));
  } else {
    const auto widened = [mask](const S* row) {
      return _mm512_maskz_cvtepu16_epi32(0xFFFF, _mm256_maskz_loadu_epi16(mask, row));
    };
    const __m512i high = second == nullptr ? __m512i{} : _mm512_maskz_slli_epi32(0xFFFF, widened(second), 16);
    _mm512_storeu_si512(&to, _mm512_or_si512(widened(first), high));
  }
#else
  for (int64_t i = 0; i < kBf16Tile; ++i) {
    const uint32_t low = i < count ? rounded(first[i]) : 0;
    const uint32_t high = i < count && second != nullptr ? rounded(second[i]) : 0;
    to.word[i] = low | (high << 16);
  }
#endif
}

/// Swaps the rows and columns of 16 x 16 words.
inline void transpose(Pairs* tile) {
#if defined(__AVX512F__)
  Vector<float> x[kBf16Tile];
  for (int i = 0; i < kBf16Tile; ++i) x[i] = load<Vector<float>>(reinterpret_cast<const float*>(&tile[i]));
  transpose_registers<float>(x);
  for (int i = 0; i < kBf16Tile; ++i) store(reinterpret_cast<float*>(&tile[i]), x[i]);
#else
  for (int i = 0; i < kBf16Tile; ++i) {
    for (int j = 0; j < i; ++j) std::swap(tile[i].word[j], tile[j].word[i]);
  }
#endif
}

/// Tiles whose 16 lines hold pairs along the rows of x (lines x depth): A as it is, B from its transpose if `turned`.
template <class S>
void pack_along(int64_t lines, int64_t depth, const S* x, int64_t stride, bool turned, bfloat16* to) {
  auto* tile = reinterpret_cast<Pairs*>(to);
  for (int64_t i = 0; i < lines; i += kBf16Tile) {
    for (int64_t k = 0; k < depth; k += kBf16Depth, tile += kBf16Tile) {
      const int64_t count = std::min(kBf16Tile, lines - i);
      for (int64_t r = 0; r < count; ++r) pairs_along(x + (i + r) * stride + k, depth - k, tile[r]);
      for (int64_t r = count; r < kBf16Tile; ++r) tile[r] = {};
      if (turned) transpose(tile);
    }
  }
}

/// Tiles whose 16 lines hold pairs of two rows of x (depth x lines): B as it is, A from its transpose if `turned`.
template <class S>
void pack_across(int64_t lines, int64_t depth, const S* x, int64_t stride, bool turned, bfloat16* to) {
  auto* tile = reinterpret_cast<Pairs*>(to);
  for (int64_t i = 0; i < lines; i += kBf16Tile) {
    for (int64_t k = 0; k < depth; k += kBf16Depth, tile += kBf16Tile) {
      const int64_t count = std::min(kBf16Tile, lines - i);
      for (int64_t p = 0; p < kBf16Tile; ++p) {
        const int64_t row = k + 2 * p;
        const S* first = x + row * stride + i;
        if (row < depth) {
          pairs_across<S>(first, row + 1 < depth ? first + stride : nullptr, count, tile[p]);
        } else {
          tile[p] = {};
        }
      }
      if (turned) transpose(tile);
    }
  }
}

}  // namespace

template <class S>
void pack_left(int64_t rows, int64_t depth, const S* a, TileStrides strides, bfloat16* to) {
  if (strides.col == 1) {
    pack_along(rows, depth, a, strides.row, false, to);
  } else {
    BOCHNER_ASSERT(strides.row == 1);
    pack_across(rows, depth, a, strides.col, true, to);
  }
}

template <class S>
void pack_right(int64_t depth, int64_t cols, const S* b, TileStrides strides, bfloat16* to) {
  if (strides.col == 1) {
    pack_across(cols, depth, b, strides.row, false, to);
  } else {
    BOCHNER_ASSERT(strides.row == 1);
    pack_along(cols, depth, b, strides.col, true, to);
  }
}

template void pack_left(int64_t, int64_t, const float*, TileStrides, bfloat16*);
template void pack_left(int64_t, int64_t, const bfloat16*, TileStrides, bfloat16*);
template void pack_right(int64_t, int64_t, const float*, TileStrides, bfloat16*);
template void pack_right(int64_t, int64_t, const bfloat16*, TileStrides, bfloat16*);

}  // namespace bochner::cpu
