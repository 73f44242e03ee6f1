// Loads and stores of numbers that are bf16 in memory and f32 in registers, under the names of vector.h: a loop written
// with load<V> and store<V> works for bf16 unchanged.
//
// A number is rounded to nearest even, and below 2^-126 it becomes 0, as by the processors' own instruction
// (vcvtneps2bf16). NaN stays NaN.
#pragma once

#include "engine/bf16.h"
#include "engine/cpu/parts/vector.h"

namespace bochner::cpu {

/// 32 bits for each lane of Vector<float>.
typedef uint32_t WordVector __attribute__((vector_size(kVectorBytes)));

/// The words of f32 numbers rounded to bf16: the upper 16 bits are the result, the lower ones have no meaning.
template <class Words>
inline Words rounded_words(Words word) {
  const Words exponent = word & 0x7F800000U;
  const Words nearest = word + 0x7FFFU + ((word >> 16) & 1U);
  const Words quiet = word | 0x00400000U;
  const auto is_nan = (word & 0x7FFFFFFFU) > 0x7F800000U;
  const auto is_small = exponent == 0U;
  const Words finite = is_small ? (word & 0x80000000U) : nearest;
  return is_nan ? quiet : finite;
}

/// Pairs of bf16 numbers, lane by lane: `first` in the lower half of a word, `second` in the upper one.
inline WordVector pairs_of(const Vector<float>& first, const Vector<float>& second) {
#if defined(__AVX512BF16__)
  alignas(64) static constexpr uint16_t kZip[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                    8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512bh halves = _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(second), reinterpret_cast<__m512>(first));
  return reinterpret_cast<WordVector>(
      _mm512_maskz_permutexvar_epi16(0xFFFFFFFFU, _mm512_load_si512(kZip), reinterpret_cast<__m512i>(halves)));
#else
  return (rounded_words(reinterpret_cast<WordVector>(first)) >> 16) |
         (rounded_words(reinterpret_cast<WordVector>(second)) & 0xFFFF0000U);
#endif
}

/// 2^x, as precise as is needed for numbers that are stored as S.
template <class S, class V>
inline V exp2_as(const V& x) {
  if constexpr (std::is_same_v<S, bfloat16>) {
    return exp2_for_bf16(x);
  } else {
    return exp2_of(x);
  }
}

template <class V>
inline V load(const bfloat16* from) {
  if constexpr (std::is_same_v<V, float>) {
    return static_cast<float>(*from);
  } else {
    static_assert(std::is_same_v<V, Vector<float>>);
#if defined(__AVX512F__)  // in their masked forms, since gcc 12 warns of the plain ones
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return reinterpret_cast<V>(_mm512_maskz_slli_epi32(0xFFFF, _mm512_maskz_cvtepu16_epi32(0xFFFF, halves), 16));
#else
    typedef uint16_t Halves __attribute__((vector_size(kVectorBytes / 2)));
    const auto halves = load<Halves>(reinterpret_cast<const uint16_t*>(from));
    return reinterpret_cast<V>(__builtin_convertvector(halves, WordVector) << 16);
#endif
  }
}

template <class V>
inline void store(bfloat16* to, const V& value) {
  if constexpr (std::is_same_v<V, float>) {
    to->bits = static_cast<uint16_t>(rounded_words(math::bits_as<uint32_t>(value)) >> 16);
  } else {
    static_assert(std::is_same_v<V, Vector<float>>);
#if defined(__AVX512BF16__)
    const __m256bh halves = _mm512_cvtneps_pbh(reinterpret_cast<__m512>(value));
    std::memcpy(&to->bits, &halves, sizeof(halves));
#else
    typedef uint16_t Halves __attribute__((vector_size(kVectorBytes / 2)));
    const WordVector words = rounded_words(reinterpret_cast<WordVector>(value)) >> 16;
    store(reinterpret_cast<uint16_t*>(to), __builtin_convertvector(words, Halves));
#endif
  }
}

}  // namespace bochner::cpu
