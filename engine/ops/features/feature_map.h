// Feature maps phi with E[phi(q) . phi(k)] = kernel(q, k): what a kernel attention applies to u = Omega x. They are
// plain data, read by the composition (autograd/fused/kernel_attention.cpp) and by the streaming kernels of both
// backends.
#pragma once

#include <cstdint>

namespace bochner {

// X(name, op, text): the functions f of elementwise features; `op` computes numbers (functions.h, unary.h), `text` is f
// applied to a Variable u. Mechanisms are listed in this order.
// clang-format off
#define BOCHNER_FEATURE_FUNCTIONS(X)           \
  X(elu_plus_one, EluPlusOne, elu(u) + 1)      \
  X(relu, unary::Relu, relu(u))                \
  X(sigmoid, unary::Sigmoid, sigmoid(u))       \
  X(exp, unary::Exp, exp(u))                   \
  X(abs, unary::Abs, abs(u))                   \
  X(gelu, unary::Gelu, gelu(u))                \
  X(cos, unary::Cos, cos(u))                   \
  X(tanh, unary::Tanh, tanh(u))                \
  X(identity, Identity, u)                     \
  X(sgn, Sgn, sign(u))
// clang-format on

struct FeatureMap {
  enum class Kind : uint8_t {
    positive,       ///< exp(u - c |x|^2 - shift) + eps                            (PERF Lemma 1, KL Eq. 9)
    trigonometric,  ///< (cos u, sin u)                                            (KL Eq. 3, random kitchen sinks)
    hyperbolic,     ///< (exp(u - c |x|^2 - shift), exp(-u - c |x|^2 - shift)) + eps   (PERF Lemma 1)
    softmax_trigonometric,  ///< exp(|x|^2 / 2 - shift) (cos u, sin u)                     (PERF Eq. 5)
    elementwise  ///< f(u) + eps                                                (PERF Eq. 5, generalised attention)
  };
#define BOCHNER_NAME(name, op, text) name,
  enum class Function : uint8_t { BOCHNER_FEATURE_FUNCTIONS(BOCHNER_NAME) };
#undef BOCHNER_NAME

  Kind kind = Kind::positive;
  Function function = Function::relu;  ///< of the elementwise kind
  double norm_factor = 0.5;            ///< c: 1/2 for the softmax kernel (PERF), 1 for KL's Gaussian one
  /// Added to each feature; to a shifted exponential after its shift, so that it is relative to the largest one. No
  /// gradient flows through the shift: with this eps > 0, derivatives are those of a constant shift.
  double eps = 1e-6;
  /// eps is added before the shift: exp(u - c |x|^2) + eps. The shift then cancels exactly, even in derivatives.
  bool absolute_eps = false;
  double constant = 0;  ///< s: one more feature of this value, which adds s^2 to the kernel (KL as released)

  /// Does phi hold exponentials that depend on |x|^2?
  bool has_exponent() const {
    return kind == Kind::positive || kind == Kind::hyperbolic || kind == Kind::softmax_trigonometric;
  }
  /// F, the number of rows of phi for M = `frequencies` rows of Omega.
  int64_t rows(int64_t frequencies) const {
    const bool pairs = kind == Kind::trigonometric || kind == Kind::hyperbolic || kind == Kind::softmax_trigonometric;
    return (pairs ? 2 : 1) * frequencies + (constant != 0 ? 1 : 0);
  }
  /// n for M = `frequencies` rows of Omega: the estimate of the kernel is phi over sqrt(n).
  int64_t draws(int64_t frequencies) const { return (kind == Kind::hyperbolic ? 2 : 1) * frequencies; }
};

/// Each function and its name.
struct NamedFunction {
  const char* name;
  FeatureMap::Function function;
};
#define BOCHNER_NAMED(name, op, text) NamedFunction{#name, FeatureMap::Function::name},
inline constexpr NamedFunction kFeatureFunctions[] = {BOCHNER_FEATURE_FUNCTIONS(BOCHNER_NAMED)};
#undef BOCHNER_NAMED

}  // namespace bochner
