#include "engine/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <vector>

namespace bochner {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

struct Function {
  const char* name;
  void (*loop)(const float* x, float* y, int64_t count);  ///< as a kernel calls it: the compiler may vectorise
  double (*exact)(double);
  float low, high;  ///< range of arguments
  double ulps;      ///< largest error allowed, in units in the last place
};

#define BOCHNER_LOOP(f)                                       \
  [](const float* x, float* y, int64_t count) {               \
    for (int64_t i = 0; i < count; ++i) y[i] = math::f(x[i]); \
  }
#define BOCHNER_EXACT(f) [](double x) { return std::f(x); }

// Half a unit is the rounding of the result itself.
const Function kFunctions[] = {
    {"exp", BOCHNER_LOOP(exp), BOCHNER_EXACT(exp), -kInf, kInf, 1.0},
    {"expm1", BOCHNER_LOOP(expm1), BOCHNER_EXACT(expm1), -kInf, kInf, 1.6},
    {"log", BOCHNER_LOOP(log), BOCHNER_EXACT(log), 0, kInf, 0.9},
    {"log1p", BOCHNER_LOOP(log1p), BOCHNER_EXACT(log1p), -1, kInf, 1.6},
    {"sin", BOCHNER_LOOP(sin), BOCHNER_EXACT(sin), -0x1p31F, 0x1p31F, 1.6},
    {"cos", BOCHNER_LOOP(cos), BOCHNER_EXACT(cos), -0x1p31F, 0x1p31F, 1.6},
    {"tanh", BOCHNER_LOOP(tanh), BOCHNER_EXACT(tanh), -kInf, kInf, 1.5},
    {"erf", BOCHNER_LOOP(erf), BOCHNER_EXACT(erf), -kInf, kInf, 1.1},
    {"sigmoid", BOCHNER_LOOP(sigmoid), [](double x) { return 1 / (1 + std::exp(-x)); }, -87, kInf, 2.5},
    {"sqrt", BOCHNER_LOOP(sqrt), BOCHNER_EXACT(sqrt), 0, kInf, 0.5001},
};

/// |y - exact| in units of the last place of a float near `exact`.
double error_in_ulps(float y, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(rounded) || std::isnan(y)) return std::isnan(rounded) && std::isnan(y) ? 0 : 1e30;
  if (std::isinf(rounded) || std::isinf(y)) return rounded == y ? 0 : 1e30;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(y - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// Every 4099th float of a range, its ends and its neighbourhood of 0: all exponents, including denormals.
std::vector<float> arguments(float low, float high) {
  std::vector<float> all{low, high, 0.0F, -0.0F, kDenormal, -kDenormal, 1.0F, -1.0F};
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099) {
    all.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  std::erase_if(all, [&](float x) { return !(x >= low && x <= high); });
  return all;
}

class MathFunction : public testing::TestWithParam<Function> {};

TEST_P(MathFunction, StaysWithinItsErrorOverItsWholeRange) {
  const Function& f = GetParam();
  const std::vector<float> x = arguments(f.low, f.high);
  std::vector<float> y(x.size());
  f.loop(x.data(), y.data(), static_cast<int64_t>(x.size()));
  double worst = 0;
  float where = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = error_in_ulps(y[i], f.exact(static_cast<double>(x[i])));
    if (error > worst) {
      worst = error;
      where = x[i];
    }
  }
  EXPECT_LE(worst, f.ulps) << "at " << where;
}

// The result for a number must not depend on its position: vector body, tail and single call agree bit for bit.
TEST_P(MathFunction, GivesTheSameBitsInVectorBodyAndTail) {
  const Function& f = GetParam();
  const std::vector<float> range = arguments(f.low, f.high);
  std::vector<float> x;
  for (size_t i = 0; i < range.size(); i += range.size() / 3000 + 1) x.push_back(range[i]);
  std::vector<float> whole(x.size());
  f.loop(x.data(), whole.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    for (const int64_t length : {1, 3, 7, 13}) {
      std::vector<float> piece(static_cast<size_t>(length), x[i]);
      f.loop(piece.data(), piece.data(), length);
      ASSERT_EQ(std::bit_cast<uint32_t>(piece.back()), std::bit_cast<uint32_t>(whole[i])) << x[i];
    }
  }
}

TEST_P(MathFunction, KeepsNaN) {
  std::vector<float> x(20, kNan);
  x[3] = -kNan;
  GetParam().loop(x.data(), x.data(), 20);
  for (const float y : x) EXPECT_TRUE(std::isnan(y));
}

INSTANTIATE_TEST_SUITE_P(All, MathFunction, testing::ValuesIn(kFunctions),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(CeilDiv, RoundsUp) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(int64_t{5}, 4), 2);
  EXPECT_EQ(round_up(0, 16), 0);
  EXPECT_EQ(round_up(16, 16), 16);
  EXPECT_EQ(round_up(size_t{17}, 16), 32U);
}

TEST(Math, EndsOfTheRange) {
  EXPECT_EQ(math::exp(kInf), kInf);
  EXPECT_EQ(math::exp(-kInf), 0.0F);
  EXPECT_EQ(math::exp(88.8F), kInf);
  EXPECT_EQ(math::exp(-103.9F), kDenormal);
  EXPECT_EQ(math::exp(0.0F), 1.0F);
  EXPECT_EQ(math::log(0.0F), -kInf);
  EXPECT_EQ(math::log(-0.0F), -kInf);
  EXPECT_TRUE(std::isnan(math::log(-kDenormal)));
  EXPECT_TRUE(std::isnan(math::log(-kInf)));
  EXPECT_EQ(math::log(kInf), kInf);
  EXPECT_EQ(math::log(1.0F), 0.0F);
  EXPECT_EQ(math::log1p(-1.0F), -kInf);
  EXPECT_TRUE(std::isnan(math::log1p(-1.5F)));
  EXPECT_EQ(math::log1p(kInf), kInf);
  EXPECT_EQ(math::expm1(kInf), kInf);
  EXPECT_EQ(math::expm1(-kInf), -1.0F);
  EXPECT_EQ(math::tanh(kInf), 1.0F);
  EXPECT_EQ(math::tanh(-kInf), -1.0F);
  EXPECT_EQ(math::erf(kInf), 1.0F);
  EXPECT_EQ(math::erf(-kInf), -1.0F);
  EXPECT_EQ(math::sigmoid(kInf), 1.0F);
  EXPECT_EQ(math::sigmoid(-kInf), 0.0F);
  EXPECT_TRUE(std::isnan(math::sin(kInf)));
  EXPECT_TRUE(std::isnan(math::cos(-kInf)));
  EXPECT_EQ(math::cos(0.0F), 1.0F);
}

TEST(Math, OddFunctionsVanishAtBothZeros) {
  for (const auto f : {+[](float x) { return math::sin(x); }, +[](float x) { return math::tanh(x); },
                       +[](float x) { return math::erf(x); }, +[](float x) { return math::expm1(x); },
                       +[](float x) { return math::log1p(x); }}) {
    EXPECT_EQ(f(-0.0F), 0.0F);
    EXPECT_EQ(f(0.0F), 0.0F);
  }
}

TEST(Math, SinesOfHugeArgumentsStayWithinTheRange) {
  for (float x = 0x1p31F; x < kInf; x *= 1.37F) {
    EXPECT_LE(std::abs(math::sin(x)), 1.0F) << x;
    EXPECT_LE(std::abs(math::cos(-x)), 1.0F) << x;
  }
}

TEST(Math, BoundedFunctionsNeverLeaveTheirBounds) {
  for (const float x : arguments(-kInf, kInf)) {
    ASSERT_LE(std::abs(math::tanh(x)), 1.0F) << x;
    ASSERT_LE(std::abs(math::erf(x)), 1.0F) << x;
    ASSERT_GE(math::exp(x), 0.0F) << x;
    ASSERT_TRUE(math::sigmoid(x) >= 0.0F && math::sigmoid(x) <= 1.0F) << x;
  }
}

TEST(Math, StepSignAndRelu) {
  EXPECT_EQ(math::step(0.0F), 0.0F);
  EXPECT_EQ(math::step(kDenormal), 1.0F);
  EXPECT_EQ(math::sign(-3.0), -1.0);
  EXPECT_EQ(math::sign(0.0), 0.0);
  EXPECT_EQ(math::sign(2.0F), 1.0F);
  EXPECT_EQ(math::relu(-2.0F), 0.0F);
  EXPECT_EQ(math::relu(2.0), 2.0);
  EXPECT_EQ(math::square(-3.0), 9.0);
}

}  // namespace
}  // namespace bochner
