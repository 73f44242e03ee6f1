// Elementwise functions of one argument. Each is one struct with `forward(x)`, for numbers of either precision on any
// device, and `derivative(x, y)` = dy/dx at y = f(x). The derivative uses functions that exist both for numbers
// (engine/math.h) and for Variables, so the same code is the fused backward kernel (g * derivative) and, made of
// differentiable ops, gives higher derivatives.
//
// To add one, write the struct and put its name in the list at the end. The Tensor and Variable functions, the kernels
// of both backends and the gradient checks are made from it.
#pragma once

#include "engine/math.h"
#include "engine/tensor.h"

namespace bochner {

/// The type of a constant in an expression of V: V itself for numbers, double for Variables.
template <class V>
struct ConstantOf {
  using type = V;
};
template <class V>
using Constant = typename ConstantOf<V>::type;

namespace unary {

using math::abs, math::cos, math::erf, math::exp, math::log, math::pow, math::relu, math::sigmoid, math::sign,
    math::sin, math::sqrt, math::step, math::tanh;

#define BOCHNER_FORWARD \
  template <class T>    \
  BOCHNER_HD T forward(T x) const
#define BOCHNER_DERIVATIVE \
  template <class V>       \
  BOCHNER_HD V derivative([[maybe_unused]] const V& x, [[maybe_unused]] const V& y) const
// The derivative where it is the same number everywhere.
#define BOCHNER_SLOPE \
  template <class V>  \
  BOCHNER_HD Constant<V> derivative(const V& /*x*/, const V& /*y*/) const

struct Neg {
  static constexpr const char* name = "neg";
  static constexpr const char* equation = "y = -x";
  BOCHNER_FORWARD { return -x; }
  BOCHNER_SLOPE { return Constant<V>(-1); }
};

struct Abs {
  static constexpr const char* name = "abs";
  static constexpr const char* equation = "y = |x|,  y' = sign x";
  static constexpr bool kink_at_zero = true;
  BOCHNER_FORWARD { return math::abs(x); }
  BOCHNER_DERIVATIVE { return sign(x); }
};

struct Sign {
  static constexpr const char* name = "sign";
  static constexpr const char* equation = "y = -1, 0 or 1,  y' = 0";
  static constexpr bool kink_at_zero = true;
  BOCHNER_FORWARD { return math::sign(x); }
  BOCHNER_DERIVATIVE { return y * 0; }  // not x * 0, which is NaN at infinities
};

struct Step {
  static constexpr const char* name = "step";
  static constexpr const char* equation = "y = 1 where x > 0, else 0,  y' = 0";
  static constexpr bool kink_at_zero = true;
  BOCHNER_FORWARD { return math::step(x); }
  BOCHNER_DERIVATIVE { return y * 0; }
};

struct Square {
  static constexpr const char* name = "square";
  static constexpr const char* equation = "y = x^2,  y' = 2x";
  BOCHNER_FORWARD { return x * x; }
  BOCHNER_DERIVATIVE { return 2 * x; }
};

struct Sqrt {
  static constexpr const char* name = "sqrt";
  static constexpr const char* equation = "y = x^(1/2),  y' = 1 / (2y)";
  static constexpr bool positive = true;
  BOCHNER_FORWARD { return math::sqrt(x); }
  BOCHNER_DERIVATIVE { return 1 / (2 * y); }
};

struct Reciprocal {
  static constexpr const char* name = "reciprocal";
  static constexpr const char* equation = "y = 1 / x,  y' = -y^2";
  static constexpr bool positive = true;
  BOCHNER_FORWARD { return T(1) / x; }
  BOCHNER_DERIVATIVE { return -(y * y); }
};

struct Exp {
  static constexpr const char* name = "exp";
  static constexpr const char* equation = "y = e^x,  y' = y";
  BOCHNER_FORWARD { return math::exp(x); }
  BOCHNER_DERIVATIVE { return y; }
};

struct Expm1 {
  static constexpr const char* name = "expm1";
  static constexpr const char* equation = "y = e^x - 1,  y' = y + 1";
  BOCHNER_FORWARD { return math::expm1(x); }
  BOCHNER_DERIVATIVE { return y + 1; }
};

struct Log {
  static constexpr const char* name = "log";
  static constexpr const char* equation = "y = ln x,  y' = 1 / x";
  static constexpr bool positive = true;
  BOCHNER_FORWARD { return math::log(x); }
  BOCHNER_DERIVATIVE { return 1 / x; }
};

struct Log1p {
  static constexpr const char* name = "log1p";
  static constexpr const char* equation = "y = ln(1 + x),  y' = 1 / (1 + x)";
  static constexpr bool positive = true;
  BOCHNER_FORWARD { return math::log1p(x); }
  BOCHNER_DERIVATIVE { return 1 / (1 + x); }
};

struct Sin {
  static constexpr const char* name = "sin";
  static constexpr const char* equation = "y = sin x,  y' = cos x";
  BOCHNER_FORWARD { return math::sin(x); }
  BOCHNER_DERIVATIVE { return cos(x); }
};

struct Cos {
  static constexpr const char* name = "cos";
  static constexpr const char* equation = "y = cos x,  y' = -sin x";
  BOCHNER_FORWARD { return math::cos(x); }
  BOCHNER_DERIVATIVE { return -sin(x); }
};

struct Tanh {
  static constexpr const char* name = "tanh";
  static constexpr const char* equation = "y = tanh x,  y' = 1 - y^2";
  BOCHNER_FORWARD { return math::tanh(x); }
  BOCHNER_DERIVATIVE { return 1 - y * y; }
};

struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr const char* equation = "y = 1 / (1 + e^-x),  y' = y (1 - y)";
  BOCHNER_FORWARD { return math::sigmoid(x); }
  BOCHNER_DERIVATIVE { return y * (1 - y); }
};

struct Erf {
  static constexpr const char* name = "erf";
  static constexpr const char* equation = "y = 2/sqrt(pi) int_0^x e^(-t^2) dt,  y' = 2/sqrt(pi) e^(-x^2)";
  BOCHNER_FORWARD { return math::erf(x); }
  BOCHNER_DERIVATIVE { return Constant<V>(2 * std::numbers::inv_sqrtpi) * exp(-(x * x)); }
};

struct Relu {
  static constexpr const char* name = "relu";
  static constexpr const char* equation = "y = max(x, 0),  y' = step x";
  static constexpr bool kink_at_zero = true;
  BOCHNER_FORWARD { return math::relu(x); }
  BOCHNER_DERIVATIVE { return step(x); }
};

struct LeakyRelu {
  static constexpr const char* name = "leaky_relu";
  static constexpr const char* equation = "y = x where x > 0, else slope x";
  static constexpr bool kink_at_zero = true;
  double slope = 0.01;
  BOCHNER_FORWARD { return x > T(0) ? x : T(slope) * x; }
  BOCHNER_DERIVATIVE { return Constant<V>(slope) + Constant<V>(1 - slope) * step(x); }
};

struct Elu {
  static constexpr const char* name = "elu";
  static constexpr const char* equation =
      "y = x where x > 0, else e^x - 1  (Clevert et al., 2016);  y' = 1 + min(y, 0)";
  static constexpr bool kink_at_zero = true;
  BOCHNER_FORWARD {
    const T power = math::exp(x);  // of every x, so that loops over it are vectorised
    return x > T(0) ? x : power - T(1);
  }
  BOCHNER_DERIVATIVE { return 1 - relu(-y); }
};

struct Gelu {
  static constexpr const char* name = "gelu";
  static constexpr const char* equation =
      "y = x Phi(x),  Phi(x) = (1 + erf(x / sqrt 2)) / 2  (Hendrycks & Gimpel, 2016);  y' = Phi(x) + x e^(-x^2 / 2) / "
      "sqrt(2 pi)";
  BOCHNER_FORWARD { return T(0.5) * x * (T(1) + math::erf(x * T(std::numbers::sqrt2 / 2))); }
  BOCHNER_DERIVATIVE {
    const Constant<V> half(0.5);
    const Constant<V> inv_sqrt2(std::numbers::sqrt2 / 2);
    const Constant<V> inv_sqrt2pi(std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2);
    return half * (1 + erf(x * inv_sqrt2)) + inv_sqrt2pi * (x * exp(x * x * -half));
  }
};

struct GeluTanh {
  static constexpr const char* name = "gelu_tanh";
  static constexpr const char* equation =
      "y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2: the approximation that JAX code of PERF and LRA uses";
  static constexpr double kScale = 0.79788456080286535588;  // sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;
  BOCHNER_FORWARD { return T(0.5) * x * (T(1) + math::tanh(T(kScale) * (x + T(kCubic) * x * x * x))); }
  BOCHNER_DERIVATIVE {
    const Constant<V> half(0.5);
    const V t = tanh(Constant<V>(kScale) * (x + Constant<V>(kCubic) * (x * x * x)));
    return half * (1 + t) + half * x * (1 - t * t) * (Constant<V>(kScale) * (1 + Constant<V>(3 * kCubic) * (x * x)));
  }
};

struct Softplus {
  static constexpr const char* name = "softplus";
  static constexpr const char* equation = "y = ln(1 + e^x),  y' = sigmoid x";
  BOCHNER_FORWARD { return math::relu(x) + math::log1p(math::exp(-math::abs(x))); }
  BOCHNER_DERIVATIVE { return sigmoid(x); }
};

struct AddScalar {
  static constexpr const char* name = "add_scalar";
  static constexpr const char* equation = "y = x + a";
  double a = 0.75;
  BOCHNER_FORWARD { return x + T(a); }
  BOCHNER_SLOPE { return Constant<V>(1); }
};

struct MulScalar {
  static constexpr const char* name = "mul_scalar";
  static constexpr const char* equation = "y = a x";
  double a = -1.25;
  BOCHNER_FORWARD { return x * T(a); }
  BOCHNER_SLOPE { return Constant<V>(a); }
};

struct DivScalar {
  static constexpr const char* name = "div_scalar";
  static constexpr const char* equation = "y = x / a";
  double a = 1.5;
  BOCHNER_FORWARD { return x / T(a); }
  BOCHNER_SLOPE { return Constant<V>(1 / a); }
};

struct PowScalar {
  static constexpr const char* name = "pow_scalar";
  static constexpr const char* equation = "y = x^a,  y' = a x^(a - 1)";
  static constexpr bool positive = true;
  double a = 1.7;
  BOCHNER_FORWARD { return math::pow(x, T(a)); }
  BOCHNER_DERIVATIVE { return a == 0 ? y * 0 : Constant<V>(a) * pow(x, Constant<V>(a - 1)); }
};

struct Clamp {
  static constexpr const char* name = "clamp";
  static constexpr const char* equation = "y = min(max(x, low), high);  y' = 1 between, 0 outside";
  double low = -0.5;
  double high = 0.5;
  /// Of an interval that is not empty.
  static Clamp checked(double low, double high) {
    if (!(low <= high)) fail("clamp: low {} must not lie above high {}", low, high);
    return {low, high};
  }
  BOCHNER_FORWARD { return x < T(low) ? T(low) : (x > T(high) ? T(high) : x); }
  BOCHNER_DERIVATIVE { return step(x - Constant<V>(low)) - step(x - Constant<V>(high)); }
};

#undef BOCHNER_FORWARD
#undef BOCHNER_DERIVATIVE
#undef BOCHNER_SLOPE

}  // namespace unary

// The list of all functions: X(struct, function) without parameters, Y(struct) with parameters.
// clang-format off
#define BOCHNER_PLAIN_UNARY_OPS(X) \
  X(Neg, neg)                      \
  X(Abs, abs)                      \
  X(Sign, sign)                    \
  X(Step, step)                    \
  X(Square, square)                \
  X(Sqrt, sqrt)                    \
  X(Reciprocal, reciprocal)        \
  X(Exp, exp)                      \
  X(Expm1, expm1)                  \
  X(Log, log)                      \
  X(Log1p, log1p)                  \
  X(Sin, sin)                      \
  X(Cos, cos)                      \
  X(Tanh, tanh)                    \
  X(Sigmoid, sigmoid)              \
  X(Erf, erf)                      \
  X(Relu, relu)                    \
  X(Elu, elu)                      \
  X(Gelu, gelu)                    \
  X(GeluTanh, gelu_tanh)           \
  X(Softplus, softplus)
#define BOCHNER_PARAMETRIC_UNARY_OPS(Y) \
  Y(LeakyRelu)                          \
  Y(AddScalar)                          \
  Y(MulScalar)                          \
  Y(DivScalar)                          \
  Y(PowScalar)                          \
  Y(Clamp)
// clang-format on

/// y = op(x) for f32, f64 and bf16; Op is a struct of namespace unary. Shape: any, kept.
template <class Op>
Tensor apply(const Op& op, const Tensor& x);
/// dx = g * op.derivative(x, y); all of one shape.
template <class Op>
Tensor apply_backward(const Op& op, const Tensor& g, const Tensor& x, const Tensor& y);

#define BOCHNER_DECLARE(Op, function) \
  inline Tensor function(const Tensor& x) { return apply(unary::Op{}, x); }
BOCHNER_PLAIN_UNARY_OPS(BOCHNER_DECLARE)
#undef BOCHNER_DECLARE

inline Tensor leaky_relu(const Tensor& x, double slope = 0.01) { return apply(unary::LeakyRelu{slope}, x); }
inline Tensor pow(const Tensor& x, double exponent) { return apply(unary::PowScalar{exponent}, x); }
inline Tensor clamp(const Tensor& x, double low, double high) { return apply(unary::Clamp::checked(low, high), x); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& x, double a) { return apply(unary::AddScalar{a}, x); }
inline Tensor operator-(const Tensor& x, double a) { return apply(unary::AddScalar{-a}, x); }
inline Tensor operator*(const Tensor& x, double a) { return apply(unary::MulScalar{a}, x); }
inline Tensor operator*(double a, const Tensor& x) { return apply(unary::MulScalar{a}, x); }
inline Tensor operator/(const Tensor& x, double a) { return apply(unary::DivScalar{a}, x); }

}  // namespace bochner
