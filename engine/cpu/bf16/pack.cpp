#include "engine/cpu/bf16/pack.h"

#include "engine/cpu/parts/stored.h"
#include "engine/cpu/parts/transpose.h"

namespace bochner::cpu {
namespace {

/// 16 pairs: the first number of each is in the lower half of a word.
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

/// Pairs of consecutive numbers of a row of `count` numbers; those beyond are 0.
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

/// A tile of 16 lines, each made by line(i, to), with its rows and columns of words swapped if `turned`.
template <class Line>
inline void put_tile(Pairs* tile, bool turned, const Line& line) {
#if defined(__AVX512F__)
  if (turned) {
    Vector<float> x[kBf16Tile];  // in registers, so that the tile is written only once
#pragma GCC unroll 16
    for (int i = 0; i < kBf16Tile; ++i) {
      Pairs words;
      line(i, words);
      x[i] = load<Vector<float>>(reinterpret_cast<const float*>(&words));
    }
    transpose_registers<float>(x);
#pragma GCC unroll 16
    for (int i = 0; i < kBf16Tile; ++i) store(reinterpret_cast<float*>(&tile[i]), x[i]);
    return;
  }
#endif
#pragma GCC unroll 16
  for (int i = 0; i < kBf16Tile; ++i) line(i, tile[i]);
  for (int i = 0; i < kBf16Tile && turned; ++i) {
    for (int j = 0; j < i; ++j) std::swap(tile[i].word[j], tile[j].word[i]);
  }
}

/// Tiles whose 16 lines hold pairs along the rows of x (lines x depth): A as it is, B from its transpose if `turned`.
template <class S>
void pack_along(int64_t lines, int64_t depth, const S* x, int64_t stride, bool turned, bfloat16* to) {
  auto* tile = reinterpret_cast<Pairs*>(to);
  for (int64_t i = 0; i < lines; i += kBf16Tile) {
    for (int64_t k = 0; k < depth; k += kBf16Depth, tile += kBf16Tile) {
      const S* const from = x + i * stride + k;
      const int64_t count = lines - i;
      const int64_t length = depth - k;
      if (count >= kBf16Tile && length >= kBf16Depth) {
        put_tile(tile, turned, [=](int64_t r, Pairs& pairs) { pairs_along(from + r * stride, kBf16Depth, pairs); });
      } else {
        put_tile(tile, turned, [=](int64_t r, Pairs& pairs) {
          pairs = {};
          if (r < count) pairs_along(from + r * stride, length, pairs);
        });
      }
    }
  }
}

/// Tiles whose 16 lines hold pairs of two rows of x (depth x lines): B as it is, A from its transpose if `turned`.
template <class S>
void pack_across(int64_t lines, int64_t depth, const S* x, int64_t stride, bool turned, bfloat16* to) {
  auto* tile = reinterpret_cast<Pairs*>(to);
  for (int64_t i = 0; i < lines; i += kBf16Tile) {
    for (int64_t k = 0; k < depth; k += kBf16Depth, tile += kBf16Tile) {
      const S* const from = x + k * stride + i;
      const int64_t count = std::min(kBf16Tile, lines - i);
      const int64_t rows = depth - k;
      if (count == kBf16Tile && rows >= kBf16Depth) {
        put_tile(tile, turned, [=](int64_t p, Pairs& pairs) {
          const S* const first = from + 2 * p * stride;
          pairs_across<S>(first, first + stride, kBf16Tile, pairs);
        });
      } else {
        put_tile(tile, turned, [=](int64_t p, Pairs& pairs) {
          const S* const first = from + 2 * p * stride;
          pairs = {};
          if (2 * p < rows) pairs_across<S>(first, 2 * p + 1 < rows ? first + stride : nullptr, count, pairs);
        });
      }
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
