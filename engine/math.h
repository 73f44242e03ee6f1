// Scalar functions, written once for the CPU and CUDA. Those in f32 have no branches, tables or library calls, so loops
// on the CPU vectorise. Their errors are a few units in the last place (tests/engine/math_test.cpp). The polynomials
// are from the Cephes library (Moshier, 1989) and, for erf, from Juffa's erff; f64 calls the C library.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <type_traits>

#if defined(__CUDACC__)
#define BOCHNER_HD __host__ __device__
#else
#define BOCHNER_HD
#endif

namespace bochner {

/// count / unit, rounded up, for count >= 0 and unit > 0.
template <class Integer>
BOCHNER_HD constexpr Integer ceil_div(Integer count, std::type_identity_t<Integer> unit) {
  return (count + unit - 1) / unit;
}
/// The smallest multiple of unit that is at least count.
template <class Integer>
BOCHNER_HD constexpr Integer round_up(Integer count, std::type_identity_t<Integer> unit) {
  return ceil_div(count, unit) * unit;
}
/// The smallest power of two that is at least count; 1 for count <= 1.
constexpr int64_t next_power_of_two(int64_t count) {
  return count <= 1 ? 1 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
}

namespace math {

template <class To, class From>
BOCHNER_HD inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

BOCHNER_HD inline double exp(double x) { return ::exp(x); }
BOCHNER_HD inline double log(double x) { return ::log(x); }
BOCHNER_HD inline double sin(double x) { return ::sin(x); }
BOCHNER_HD inline double cos(double x) { return ::cos(x); }
BOCHNER_HD inline double tanh(double x) { return ::tanh(x); }
BOCHNER_HD inline double erf(double x) { return ::erf(x); }
BOCHNER_HD inline double sqrt(double x) { return ::sqrt(x); }
BOCHNER_HD inline double abs(double x) { return ::fabs(x); }
BOCHNER_HD inline double pow(double x, double y) { return ::pow(x, y); }
BOCHNER_HD inline double log1p(double x) { return ::log1p(x); }
BOCHNER_HD inline double expm1(double x) { return ::expm1(x); }
BOCHNER_HD inline float sqrt(float x) { return ::sqrtf(x); }
BOCHNER_HD inline float abs(float x) { return ::fabsf(x); }
BOCHNER_HD inline float pow(float x, float y) { return ::powf(x, y); }

/// x y + z, rounded once if the machine has the instruction. Use it for every sum of a product and a term, so that no
/// bit depends on the compiler's choices (vector body or tail, optimised or not) or on the device.
BOCHNER_HD inline float fma(float x, float y, float z) {
#if defined(__FMA__) || defined(__CUDACC__)
  return ::fmaf(x, y, z);
#else
  return x * y + z;
#endif
}
BOCHNER_HD inline double fma(double x, double y, double z) {
#if defined(__FMA__) || defined(__CUDACC__)
  return ::fma(x, y, z);
#else
  return x * y + z;
#endif
}

/// e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2. Overflows to inf above 88.72, underflows to 0 below -104.
BOCHNER_HD inline float exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const float shifted = fma(x, 1.44269504f, 12582912.0f);  // 1.5 * 2^23 leaves round(x / ln 2) in the low bits
  const float n = shifted - 12582912.0f;
  float r = fma(n, -0.693359375f, x);
  r = fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  p = fma(p, r * r, r) + 1.0f;
  const int32_t exponent = bits_as<int32_t>(shifted) - bits_as<int32_t>(12582912.0f);
  const int32_t half = exponent >> 1;  // two factors, so that both ends of the range are reached
  const float scale = bits_as<float>((half + 127) << 23);
  const float rest = bits_as<float>((exponent - half + 127) << 23);
  return p * scale * rest;
}

/// ln x = e ln 2 + ln m with m in [sqrt(1/2), sqrt 2). ln 0 = -inf, ln of a negative number is NaN.
BOCHNER_HD inline float log(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const uint32_t word = bits_as<uint32_t>(scaled);
  const int32_t exponent = static_cast<int32_t>(word - 0x3f3504f3U) >> 23;  // of the nearest power of two
  const float m = bits_as<float>(word - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;
  const float e = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = fma(p, m, -1.1514610310e-1f);
  p = fma(p, m, 1.1676998740e-1f);
  p = fma(p, m, -1.2420140846e-1f);
  p = fma(p, m, 1.4249322787e-1f);
  p = fma(p, m, -1.6668057665e-1f);
  p = fma(p, m, 2.0000714765e-1f);
  p = fma(p, m, -2.4999993993e-1f);
  p = fma(p, m, 3.3333331174e-1f);
  float y = fma(e, -2.12194440e-4f, p * m * z);
  y = fma(z, -0.5f, y);
  y = fma(e, 0.693359375f, m + y);
  y = x < INFINITY ? y : x;  // inf and NaN
  y = x == 0.0f ? -INFINITY : y;
  return x < 0.0f ? NAN : y;
}

/// e^x - 1 = 2^n (e^r - 1) + (2^n - 1), with n and r as in exp.
BOCHNER_HD inline float expm1(float x) {
  const float kept = x;
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const float shifted = fma(x, 1.44269504f, 12582912.0f);
  const float n = shifted - 12582912.0f;
  float r = fma(n, -0.693359375f, x);
  r = fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  p = fma(p, r * r, r);
  const int32_t exponent = bits_as<int32_t>(shifted) - bits_as<int32_t>(12582912.0f);
  const bool top = exponent == 128;  // 2^128 is not a float: take half of it and double at the end
  const int32_t biased = exponent - (top ? 1 : 0) + 127;
  const float scale = bits_as<float>((biased < 0 ? 0 : biased) << 23);
  const float y = fma(scale, p, scale - (top ? 0.0f : 1.0f));
  return kept == 0.0f ? kept : (top ? 2.0f * y : y);
}

/// ln(1 + x) = ln u + (x - (u - 1)) / u, with u the rounded 1 + x; the second term corrects the rounding.
BOCHNER_HD inline float log1p(float x) {
  const float u = 1.0f + x;
  const float rest = (x - (u - 1.0f)) / u;
  const float y = log(u) + rest;
  return u == 1.0f || x == INFINITY ? x : (x == -1.0f ? -INFINITY : y);
}

/// The argument minus a multiple of pi / 2, and that multiple mod 4. Exact to the last bit of f32 for |x| < 2^31;
/// beyond 2^51 the result is only some number within the range.
BOCHNER_HD inline float quarter_turn(float x, int32_t& quadrant) {
  const double shifted = fma(static_cast<double>(x), 0.63661977236758134, 6755399441055744.0);
  const double n = shifted - 6755399441055744.0;
  quadrant = static_cast<int32_t>(bits_as<int64_t>(shifted) & 3);
  double r = fma(n, -1.5707963267948966, static_cast<double>(x));
  r = fma(n, -6.123233995736766e-17, r);
  const auto angle = static_cast<float>(r);
  return angle > 0.7854f ? 0.7854f : (angle < -0.7854f ? -0.7854f : angle);
}

template <class T>
struct SinCos {
  T sin, cos;
};

/// Sine and cosine of r + quadrant pi / 2, for |r| <= pi / 4.
BOCHNER_HD inline SinCos<float> sin_cos_of_quadrant(float r, int32_t quadrant) {
  const float z = r * r;
  float s = -1.9515295891e-4f;
  s = fma(s, z, 8.3321608736e-3f);
  s = fma(s, z, -1.6666654611e-1f);
  s = fma(s * z, r, r);
  float c = 2.443315711809948e-5f;
  c = fma(c, z, -1.388731625493765e-3f);
  c = fma(c, z, 4.166664568298827e-2f);
  c = fma(c, z, -0.5f);
  c = fma(c, z, 1.0f);
  const bool odd = (quadrant & 1) != 0;
  const float sine = odd ? c : s;
  const float cosine = odd ? s : c;
  return {(quadrant & 2) != 0 ? -sine : sine, ((quadrant + 1) & 2) != 0 ? -cosine : cosine};
}

BOCHNER_HD inline float sin(float x) {
  int32_t quadrant = 0;
  const float r = quarter_turn(x, quadrant);
  return sin_cos_of_quadrant(r, quadrant).sin;
}

BOCHNER_HD inline float cos(float x) {
  int32_t quadrant = 0;
  const float r = quarter_turn(x, quadrant);
  return sin_cos_of_quadrant(r, quadrant).cos;
}

BOCHNER_HD inline float tanh(float x) {
  const float a = abs(x);
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = fma(p, z, 2.06390887954e-2f);
  p = fma(p, z, -5.37397155531e-2f);
  p = fma(p, z, 1.33314422036e-1f);
  p = fma(p, z, -3.33332819422e-1f);
  const float near = fma(p * z, x, x);
  const float far = 1.0f - 2.0f / (exp(2.0f * a) + 1.0f);
  return a < 0.625f ? near : (x < 0.0f ? -far : far);
}

BOCHNER_HD inline float erf(float x) {
  const float t = abs(x);
  const float z = x * x;
  float far = fma(-1.72853470e-5f, t, 3.83197126e-4f);
  far = fma(far, z, fma(-3.88396438e-3f, t, 2.42546219e-2f));
  far = fma(far, t, -1.06777877e-1f);
  far = fma(far, t, -6.34846687e-1f);
  far = fma(far, t, -1.28717512e-1f);
  far = fma(far, t, -t);
  far = 1.0f - exp(far);
  float near = -5.96761703e-4f;
  near = fma(near, z, 4.99119423e-3f);
  near = fma(near, z, -2.67681349e-2f);
  near = fma(near, z, 1.12819925e-1f);
  near = fma(near, z, -3.76125336e-1f);
  near = fma(near, z, 1.28379166e-1f);
  near = fma(near, x, x);
  return t > 0.927734375f ? (x < 0.0f ? -far : far) : near;
}

/// 1 where x > 0, else 0: the derivative of relu. Its own derivative is 0 everywhere.
template <class T>
BOCHNER_HD inline T step(T x) {
  return x > T(0) ? T(1) : T(0);
}
/// -1, 0 or 1.
template <class T>
BOCHNER_HD inline T sign(T x) {
  return T(x > T(0)) - T(x < T(0));
}
/// max(x, 0); NaN stays NaN, so that the loss shows that a model has diverged.
template <class T>
BOCHNER_HD inline T relu(T x) {
  return T(0) > x ? T(0) : x;
}
template <class T>
BOCHNER_HD inline T square(T x) {
  return x * x;
}
/// 1 / (1 + e^-x)
template <class T>
BOCHNER_HD inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

}  // namespace math
}  // namespace bochner
