// Tests of gradcheck itself: right derivatives pass, and each kind of wrong derivative is found and named.
#include "autograd/gradcheck.h"

#include <gtest/gtest.h>

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/tape.h"
#include "tests/autograd/op_info.h"

namespace bochner {
namespace {

using Inputs = std::vector<Variable>;

/// x^2 whose derivative is claimed to be `factor` x, and the second derivative `second`.
Variable squared(const Variable& x, double factor, double second = 2) {
  return record("squared", square(x.value()), {&x}, [=](const Variable& g) {
    const Variable slope =
        record("slope", x.value() * factor, {&x}, [second](const Variable& h) { return Gradients{h * second}; });
    return Gradients{g * slope};
  });
}

const Tensor kX = sample_values({3, 5}, 1);

TEST(Gradcheck, PassesWhatIsRight) {
  const auto f = [](const Inputs& in) { return squared(in[0], 2); };
  EXPECT_EQ(gradcheck(f, {kX}), "");
  EXPECT_EQ(gradcheck_twice(f, {kX}), "");
  EXPECT_EQ(gradcheck(f, {Tensor::zeros({0, 4}, DType::f64)}), "");
}

TEST(Gradcheck, FindsAnErrorOfAMillionth) {
  const std::string report = gradcheck([](const Inputs& in) { return squared(in[0], 2 + 2e-6); }, {kX});
  EXPECT_TRUE(report.starts_with("input 0 at (")) << report;
}

TEST(Gradcheck, FindsOneWrongEntry) {
  Tensor mark = Tensor::zeros({3, 5}, DType::f64);
  mark.select(0, 1).select(0, 2).copy_(Tensor::scalar(1e-3, DType::f64));
  const auto f = [&](const Inputs& in) {
    const Variable x = in[0];
    return record("wrong", sin(x.value()), {&x},
                  [&mark, x](const Variable& g) { return Gradients{g * cos(x) + Variable(mark)}; });
  };
  const std::string report = gradcheck(f, {kX});
  EXPECT_TRUE(report.starts_with("input 0 at (1, 2): ")) << report;
}

TEST(Gradcheck, FindsAMissingAndAMisshapenGradient) {
  const auto none = [](const Inputs& in) {
    const Variable a = in[0], b = in[1];
    return record("none", a.value() * b.value(), {&a, &b}, [b](const Variable& g) { return Gradients{g * b, {}}; });
  };
  EXPECT_TRUE(gradcheck(none, {kX, sample_values({3, 5}, 2)}).starts_with("input 1 at (")) << "no gradient";
  const auto misshapen = [](const Inputs& in) {
    const Variable a = in[0];
    return record("misshapen", a.value() * 1.0, {&a}, [](const Variable& g) { return Gradients{sum(g, {0}, true)}; });
  };
  EXPECT_EQ(gradcheck(misshapen, {kX}), "input 0: gradient of shape (1, 5) for an input of shape (3, 5)");
}

TEST(Gradcheck, FindsNaN) {
  const auto f = [](const Inputs& in) {
    const Variable x = in[0];
    return record("nan", x.value() * 1.0, {&x}, [](const Variable& g) { return Gradients{g * NAN}; });
  };
  EXPECT_NE(gradcheck(f, {kX}), "");
}

TEST(Gradcheck, FindsAWrongSecondDerivativeWhereTheFirstIsRight) {
  const auto f = [](const Inputs& in) { return squared(in[0], 2, 2.001); };
  EXPECT_EQ(gradcheck(f, {kX}), "");
  EXPECT_NE(gradcheck_twice(f, {kX}), "");
}

}  // namespace
}  // namespace bochner
