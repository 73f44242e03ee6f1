// The activations as function objects for kernels; definitions in engine/ops/unary.h.
#pragma once

#include <cmath>
#include <numbers>

#include "engine/cuda/parts/warp_tile.h"
#include "engine/ops/bias_activation.h"
#include "engine/ops/unary.h"

namespace bochner::cuda {

/// act(x) and act'(x). If one of them is not used, it is not computed either.
template <class T>
struct Activated {
  T value, slope;
};

struct IdentityActivation {
  template <class S, class T>
  BOCHNER_DEVICE Activated<T> at(T x) const {
    return {x, T(1)};
  }
};

/// 1 / x, to about 23 bits, without __fdividef's special treatment of numbers near the largest.
BOCHNER_DEVICE inline float fast_inverse(float x) {
#if defined(__CUDA_ARCH__)
  float y = 0;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}

/// x Phi(x) for results stored in bf16: Phi(-|x|) = e^(-x^2 / 2) p(t) / 2 with t = 1 / (1 + 0.3275911 |x| / sqrt 2),
/// whose error is at most 7.5e-8 (Abramowitz & Stegun, 1964, 7.1.26). One exponential serves both value and slope.
BOCHNER_DEVICE inline Activated<float> gelu_for_bf16(float x) {
  constexpr auto kInverseSqrt2 = static_cast<float>(std::numbers::sqrt2 / 2);
  const float bell = fast_exp2(x * x * static_cast<float>(-std::numbers::log2e / 2));
  const float t = fast_inverse(1.0f + 0.3275911f * kInverseSqrt2 * math::abs(x));
  const float p =
      t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  const float tail = 0.5f * bell * p;
  const float phi = x > 0 ? 1.0f - tail : tail;
  return {x * phi, phi + static_cast<float>(std::numbers::inv_sqrtpi) * kInverseSqrt2 * x * bell};
}

template <class Op>
struct UnaryActivation {
  /// S: the type that the results are stored in.
  template <class S, class T>
  BOCHNER_DEVICE Activated<T> at(T x) const {
    if constexpr (std::is_same_v<S, bfloat16> && std::is_same_v<Op, unary::Gelu>) return gelu_for_bf16(x);
    return {Op{}.forward(x), Op{}.derivative(x, x)};  // none of these derivatives needs y
  }
};

/// f(function object of that activation)
template <class F>
void visit_activation(Activation activation, const F& f) {
  switch (activation) {
    case Activation::relu:
      return f(UnaryActivation<unary::Relu>{});
    case Activation::gelu:
      return f(UnaryActivation<unary::Gelu>{});
    case Activation::gelu_tanh:
      return f(UnaryActivation<unary::GeluTanh>{});
    case Activation::identity:
      break;
  }
  f(IdentityActivation{});
}

}  // namespace bochner::cuda
