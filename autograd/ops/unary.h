// Elementwise functions of one Variable; equations are in engine/ops/unary.h.
#pragma once

#include "autograd/tape.h"
#include "engine/ops/unary.h"

namespace bochner {

template <>
struct ConstantOf<Variable> {
  using type = double;
};

/// y = op(x),  dx = g * op.derivative(x, y)
template <class Op>
Variable apply(const Op& op, const Variable& x);

#define BOCHNER_DECLARE(Op, function) \
  inline Variable function(const Variable& x) { return apply(unary::Op{}, x); }
BOCHNER_PLAIN_UNARY_OPS(BOCHNER_DECLARE)
#undef BOCHNER_DECLARE

inline Variable leaky_relu(const Variable& x, double slope = 0.01) { return apply(unary::LeakyRelu{slope}, x); }
inline Variable pow(const Variable& x, double exponent) { return apply(unary::PowScalar{exponent}, x); }
inline Variable clamp(const Variable& x, double low, double high) { return apply(unary::Clamp::checked(low, high), x); }
inline Variable operator-(const Variable& x) { return neg(x); }
inline Variable operator+(const Variable& x, double a) { return apply(unary::AddScalar{a}, x); }
inline Variable operator+(double a, const Variable& x) { return x + a; }
inline Variable operator-(const Variable& x, double a) { return x + -a; }
inline Variable operator-(double a, const Variable& x) { return neg(x) + a; }
inline Variable operator*(const Variable& x, double a) { return apply(unary::MulScalar{a}, x); }
inline Variable operator*(double a, const Variable& x) { return x * a; }
inline Variable operator/(const Variable& x, double a) { return apply(unary::DivScalar{a}, x); }
inline Variable operator/(double a, const Variable& x) { return a * reciprocal(x); }

}  // namespace bochner
