#include "autograd/ops/binary.h"

#include "engine/ops/reduce.h"

namespace bochner {

Variable sum_to(const Variable& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return record("sum_to", sum_to(x.value(), shape), {&x},
                [from = x.shape()](const Variable& g) { return Gradients{expand(g, from)}; });
}

Variable expand(const Variable& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return record("expand", x.value().expand(shape), {&x},
                [from = x.shape()](const Variable& g) { return Gradients{sum_to(g, from)}; });
}

namespace {

/// All that is kept of an input: whether it gets a gradient, and its shape.
struct Wanted {
  explicit Wanted(const Variable& x) : tracked(x.tracked()), shape(x.shape()) {}
  explicit operator bool() const { return tracked; }

  bool tracked;
  Shape shape;
};

}  // namespace

// z = a + b:  da = g, db = g
Variable operator+(const Variable& a, const Variable& b) {
  return record("add", a.value() + b.value(), {&a, &b}, [a = Wanted(a), b = Wanted(b)](const Variable& g) {
    return Gradients{a ? sum_to(g, a.shape) : Variable(), b ? sum_to(g, b.shape) : Variable()};
  });
}

// z = a - b:  da = g, db = -g
Variable operator-(const Variable& a, const Variable& b) {
  return record("sub", a.value() - b.value(), {&a, &b}, [a = Wanted(a), b = Wanted(b)](const Variable& g) {
    return Gradients{a ? sum_to(g, a.shape) : Variable(), b ? -sum_to(g, b.shape) : Variable()};
  });
}

// z = a b:  da = g b, db = g a
Variable operator*(const Variable& a, const Variable& b) {
  return record("mul", a.value() * b.value(), {&a, &b}, [a, b](const Variable& g) {
    return Gradients{a.tracked() ? sum_to(g * b, a.shape()) : Variable(),
                     b.tracked() ? sum_to(g * a, b.shape()) : Variable()};
  });
}

// z = a / b:  da = g / b, db = -g a / b^2
Variable operator/(const Variable& a, const Variable& b) {
  return record("div", a.value() / b.value(), {&a, &b}, [a, b](const Variable& g) {
    const Variable da = g / b;
    return Gradients{a.tracked() ? sum_to(da, a.shape()) : Variable(),
                     b.tracked() ? -sum_to(da * a / b, b.shape()) : Variable()};
  });
}

// z = a^b:  da = g b a^(b - 1), db = g a^b ln a
Variable pow(const Variable& a, const Variable& b) {
  return record("pow", pow(a.value(), b.value()), {&a, &b}, [a, b](const Variable& g) {
    return Gradients{a.tracked() ? sum_to(g * b * pow(a, b - 1), a.shape()) : Variable(),
                     b.tracked() ? sum_to(g * pow(a, b) * log(a), b.shape()) : Variable()};
  });
}

namespace {

/// 1 where a > b, 1/2 where equal, 0 where a < b; a constant.
Tensor share(const Tensor& a, const Tensor& b) { return sign(a - b) * 0.5 + 0.5; }

}  // namespace

// z = max(a, b):  da = g [a > b], db = g [b > a]
Variable maximum(const Variable& a, const Variable& b) {
  return record("maximum", maximum(a.value(), b.value()), {&a, &b}, [a, b](const Variable& g) {
    const auto part = [&](const Variable& x, const Variable& other) {
      return x.tracked() ? sum_to(g * Variable(share(x.value(), other.value())), x.shape()) : Variable();
    };
    return Gradients{part(a, b), part(b, a)};
  });
}

Variable minimum(const Variable& a, const Variable& b) { return -maximum(-a, -b); }
Variable maximum(const Variable& a, double b) { return maximum(a, Variable(Tensor::scalar(b, a.value()))); }
Variable minimum(const Variable& a, double b) { return minimum(a, Variable(Tensor::scalar(b, a.value()))); }

// z = a where c, else b:  da = g where c, else 0; db = 0 where c, else g
Variable where(const Tensor& condition, const Variable& a, const Variable& b) {
  return record("where", where(condition, a.value(), b.value()), {&a, &b},
                [condition, a = Wanted(a), b = Wanted(b)](const Variable& g) {
                  return Gradients{a ? sum_to(where(condition, g, 0), a.shape) : Variable(),
                                   b ? sum_to(where(condition, 0, g), b.shape) : Variable()};
                });
}

Variable where(const Tensor& condition, const Variable& a, double b) {
  return where(condition, a, Variable(Tensor::scalar(b, a.value())));
}
Variable where(const Tensor& condition, double a, const Variable& b) {
  return where(condition, Variable(Tensor::scalar(a, b.value())), b);
}

}  // namespace bochner
