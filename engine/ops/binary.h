// Elementwise functions of two and three arguments, with broadcasting; types must agree.
#pragma once

#include "engine/math.h"
#include "engine/tensor.h"

namespace bochner {

namespace binary {

#define BOCHNER_FORWARD \
  template <class T>    \
  BOCHNER_HD auto forward(T a, T b) const

struct Add {
  static constexpr const char* name = "add";
  static constexpr const char* equation = "z = a + b";
  BOCHNER_FORWARD { return a + b; }
};
struct Sub {
  static constexpr const char* name = "sub";
  static constexpr const char* equation = "z = a - b";
  BOCHNER_FORWARD { return a - b; }
};
struct Mul {
  static constexpr const char* name = "mul";
  static constexpr const char* equation = "z = a b";
  BOCHNER_FORWARD { return a * b; }
};
struct Div {
  static constexpr const char* name = "div";
  static constexpr const char* equation = "z = a / b";
  BOCHNER_FORWARD { return a / b; }
};
struct Pow {
  static constexpr const char* name = "pow";
  static constexpr const char* equation = "z = a^b for a > 0";
  BOCHNER_FORWARD { return math::pow(a, b); }
};
struct Maximum {
  static constexpr const char* name = "maximum";
  static constexpr const char* equation = "z = max(a, b), NaN if one of them is";
  BOCHNER_FORWARD { return a > b || a != a ? a : b; }
};
struct Minimum {
  static constexpr const char* name = "minimum";
  static constexpr const char* equation = "z = min(a, b), NaN if one of them is";
  BOCHNER_FORWARD { return a < b || a != a ? a : b; }
};
struct Equal {
  static constexpr const char* name = "equal";
  static constexpr const char* equation = "z = (a == b)";
  BOCHNER_FORWARD { return a == b; }
};
struct Less {
  static constexpr const char* name = "less";
  static constexpr const char* equation = "z = (a < b)";
  BOCHNER_FORWARD { return a < b; }
};
struct LessEqual {
  static constexpr const char* name = "less_equal";
  static constexpr const char* equation = "z = (a <= b)";
  BOCHNER_FORWARD { return a <= b; }
};
#undef BOCHNER_FORWARD

}  // namespace binary

#define BOCHNER_ARITHMETIC_OPS(X) \
  X(Add, add) X(Sub, sub) X(Mul, mul) X(Div, div) X(Maximum, maximum) X(Minimum, minimum)
#define BOCHNER_FLOATING_OPS(X) X(Pow, pow)
#define BOCHNER_COMPARISONS(X) X(Equal, equal) X(Less, less) X(LessEqual, less_equal)
#define BOCHNER_BINARY_OPS(X) BOCHNER_ARITHMETIC_OPS(X) BOCHNER_FLOATING_OPS(X) BOCHNER_COMPARISONS(X)

/// z = op(a, b), broadcast; f32, f64, bf16, i32, i64 (pow: no integers). Comparisons give bool.
template <class Op>
Tensor apply(const Op& op, const Tensor& a, const Tensor& b);

#define BOCHNER_DECLARE(Op, function) \
  inline Tensor function(const Tensor& a, const Tensor& b) { return apply(binary::Op{}, a, b); }
BOCHNER_BINARY_OPS(BOCHNER_DECLARE)
#undef BOCHNER_DECLARE

/// A scalar argument takes the type of the tensor.
#define BOCHNER_DECLARE(Op, function)                                                             \
  inline Tensor function(const Tensor& a, double b) { return function(a, Tensor::scalar(b, a)); } \
  inline Tensor function(double a, const Tensor& b) { return function(Tensor::scalar(a, b), b); }
BOCHNER_DECLARE(Maximum, maximum)
BOCHNER_DECLARE(Minimum, minimum)
BOCHNER_COMPARISONS(BOCHNER_DECLARE)
#undef BOCHNER_DECLARE

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }

/// to += x (x broadcasts to the shape of `to`), in place.
void add_(const Tensor& to, const Tensor& x);
/// z = a where the condition is true, b elsewhere; all broadcast. `condition` is bool.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
inline Tensor where(const Tensor& condition, const Tensor& a, double b) {
  return where(condition, a, Tensor::scalar(b, a));
}
inline Tensor where(const Tensor& condition, double a, const Tensor& b) {
  return where(condition, Tensor::scalar(a, b), b);
}
/// For bool tensors, broadcast.
inline Tensor logical_and(const Tensor& a, const Tensor& b) { return where(a, b, 0); }
inline Tensor logical_or(const Tensor& a, const Tensor& b) { return where(a, 1, b); }
inline Tensor logical_not(const Tensor& a) { return where(a, 0, Tensor::scalar(1, a)); }

}  // namespace bochner
