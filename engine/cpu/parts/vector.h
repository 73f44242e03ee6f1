// Vectors of the machine's widest registers, through the compiler's vector extensions: arithmetic and comparisons work
// lane by lane, without intrinsics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace bochner::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kVectorRegisters = 16;
#elif defined(__aarch64__)
inline constexpr int kVectorBytes = 16;
inline constexpr int kVectorRegisters = 32;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kVectorRegisters = 16;
#endif

template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T, int W>
struct VectorOf {
  typedef T type __attribute__((vector_size(W * sizeof(T))));
};
template <class T>
struct VectorOf<T, 1> {
  using type = T;
};

/// W values of T; T itself for W = 1.
template <class T, int W = kLanes<T>>
using Vector = typename VectorOf<T, W>::type;

/// From any address.
template <class V, class T>
inline V load(const T* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}
template <class V, class T>
inline void store(T* to, const V& value) {
  std::memcpy(to, &value, sizeof(V));
}

/// The larger in each lane; b if one is NaN. (GCC 12 emits two instructions for the plain form.)
template <class V>
inline V max_of(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<V, Vector<float>>) return reinterpret_cast<V>(_mm512_maskz_max_ps(0xFFFF, a, b));
  if constexpr (std::is_same_v<V, Vector<double>>) return reinterpret_cast<V>(_mm512_maskz_max_pd(0xFF, a, b));
#endif
  return a > b ? a : b;
}
template <class V>
inline V min_of(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<V, Vector<float>>) return reinterpret_cast<V>(_mm512_maskz_min_ps(0xFFFF, a, b));
  if constexpr (std::is_same_v<V, Vector<double>>) return reinterpret_cast<V>(_mm512_maskz_min_pd(0xFF, a, b));
#endif
  return a < b ? a : b;
}

/// The largest argument of exp2_of; it gives inf.
template <class T>
inline constexpr T kExp2Overflow = sizeof(T) == 4 ? 128 : 1024;

namespace detail {

/// 2^x = 2^n 2^r with n = round(x), where polynomial(r) is 2^r for |r| <= 1/2. AVX-512 has instructions for r and for
/// the product by 2^n; elsewhere adding 1.5 2^23 + 127 leaves n + 127, the exponent of 2^n, in the low bits.
template <class Polynomial>
inline Vector<float> exp2_by(Vector<float> x, const Polynomial& polynomial) {
#if defined(__AVX512DQ__)
  constexpr int kNearestQuietly = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m512 X = reinterpret_cast<__m512>(x);
  const Vector<float> r = reinterpret_cast<Vector<float>>(_mm512_maskz_reduce_ps(0xFFFF, X, kNearestQuietly));
  // Numbers below the smallest normal one become 0: arithmetic on them is slow.
  const __mmask16 normal = _mm512_cmp_ps_mask(X, _mm512_set1_ps(-126.0F), _CMP_NLT_UQ);
  return reinterpret_cast<Vector<float>>(
      _mm512_maskz_scalef_ps(normal, reinterpret_cast<__m512>(polynomial(r)), reinterpret_cast<__m512>(x - r)));
#else
  typedef int32_t Bits __attribute__((vector_size(kVectorBytes)));
  constexpr float kMagic = 12583039.0F;
  x = max_of(Vector<float>{} - 127.0F, x);
  const Vector<float> shifted = x + kMagic;
  return polynomial(x - (shifted - kMagic)) * reinterpret_cast<Vector<float>>(reinterpret_cast<Bits>(shifted) << 23);
#endif
}

}  // namespace detail

/// 2^x for x <= 128 (f64: 1024); exactly 0 below -127 (-1023), so for -inf too. Relative error 8e-8 (f64: 3e-16). The
/// polynomial is that of exp2f in Cephes (Moshier, 1989); in f64 it is the series of e^(r ln 2).
inline Vector<float> exp2_of(Vector<float> x) {
  return detail::exp2_by(x, [](const Vector<float>& r) {
    Vector<float> p = r * 1.535336188319500e-4F + 1.339887440266574e-3F;
    p = p * r + 9.618437357674640e-3F;
    p = p * r + 5.550332471162809e-2F;
    p = p * r + 2.402264791363012e-1F;
    p = p * r + 6.931472028550421e-1F;
    return p * r + 1.0F;
  });
}
/// The same with a relative error of 1.02e-4, a twentieth of that of rounding to bf16; exact for integer x. The
/// polynomial is the best of its degree with 2^0 = 1.
inline Vector<float> exp2_for_bf16(Vector<float> x) {
  return detail::exp2_by(x, [](const Vector<float>& r) {
    Vector<float> p = r * 5.500910189e-2F + 2.422109796e-1F;
    p = p * r + 6.932828878e-1F;
    return p * r + 1.0F;
  });
}
inline Vector<double> exp2_of(Vector<double> x) {
  typedef int64_t Bits __attribute__((vector_size(kVectorBytes)));
  constexpr double kMagic = 6755399441056767.0;  // 1.5 2^52 + 1023
  x = max_of(Vector<double>{} - 1023.0, x);
  const Vector<double> shifted = x + kMagic;
  const Vector<double> r = (x - (shifted - kMagic)) * 0.69314718055994530942;
  Vector<double> p = r * (1 / 6227020800.0) + 1 / 479001600.0;
  p = p * r + 1 / 39916800.0;
  p = p * r + 1 / 3628800.0;
  p = p * r + 1 / 362880.0;
  p = p * r + 1 / 40320.0;
  p = p * r + 1 / 5040.0;
  p = p * r + 1 / 720.0;
  p = p * r + 1 / 120.0;
  p = p * r + 1 / 24.0;
  p = p * r + 1 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return p * reinterpret_cast<Vector<double>>(reinterpret_cast<Bits>(shifted) << 52);
}

}  // namespace bochner::cpu
