#include "engine/ops/depthwise_convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/parallel.h"
#include "engine/random.h"

namespace bochner {
namespace {

struct Call {
  Tensor x, taps;
};

Call call(const Shape& shape, FilterSize filter, DType dtype, uint64_t seed = 1) {
  Generator draws(seed);
  const DType compute = dtype == DType::bf16 ? DType::f32 : dtype;
  return {normal(shape, draws, 0, 1, DType::f64).cast(dtype),
          normal({shape[1], filter.rows, filter.width, shape[3]}, draws, 0, 1, DType::f64).cast(compute)};
}

struct Convolved {
  int64_t length, columns;
  FilterSize filter;
};
// A sequence; images of whole rows and with half a last row; more columns and rows than are processed at once.
const std::vector<Convolved> kConvolved = {{21, 0, {1, 13}}, {35, 7, {3, 5}},  {33, 7, {5, 3}},
                                           {5, 9, {3, 3}},   {150, 0, {1, 3}}, {21 * 70 - 8, 70, {5, 9}}};

TEST(DepthwiseConvolution, IsTheSumOfItsEquation) {
  const int64_t B = 2, H = 3, E = 19;
  for (const auto& [L, columns, filter] : kConvolved) {
    const Call given = call({B, H, L, E}, filter, DType::f64);
    const std::vector<double> x = given.x.to_vector<double>();
    const std::vector<double> w = given.taps.to_vector<double>();
    const int64_t wide = columns == 0 ? L : columns;
    for (const bool back : {false, true}) {
      const std::vector<double> y = depthwise_convolution(given.x, given.taps, columns, back).to_vector<double>();
      for (int64_t n = 0; n < B * H * L * E; ++n) {
        const int64_t i = n / E % L;
        const int64_t h = n / E / L % H;
        double wanted = 0;
        for (int64_t tap = 0; tap < filter.rows * filter.width; ++tap) {
          const int64_t sign = back ? -1 : 1;
          const int64_t row = i / wide + sign * (tap / filter.width - filter.rows / 2);
          const int64_t column = i % wide + sign * (tap % filter.width - filter.width / 2);
          if (row < 0 || column < 0 || column >= wide || row * wide + column >= L) continue;
          wanted += w[static_cast<size_t>((h * filter.rows * filter.width + tap) * E + n % E)] *
                    x[static_cast<size_t>(n + (row * wide + column - i) * E)];
        }
        ASSERT_NEAR(y[static_cast<size_t>(n)], wanted, 1e-13) << n << " of " << L;
      }
    }
  }
}

TEST(DepthwiseConvolution, ItsTapsHaveTheGradientOfTheEquation) {
  // <g, C(w) x> is linear in w, so its derivative by a tap is its value for that tap alone
  for (const auto& [L, columns, filter] : kConvolved) {
    const Call given = call({2, 1, L, 17}, filter, DType::f64);
    const Tensor g = call({2, 1, L, 17}, {1, 1}, DType::f64, 2).x;
    const Tensor found = depthwise_convolution_taps(given.x, g, filter, columns);
    for (int64_t tap = 0; tap < found.size(); ++tap) {
      const Tensor one = Tensor::zeros(found.shape(), DType::f64);
      one.data<double>()[tap] = 1;
      const double wanted = sum(depthwise_convolution(given.x, one, columns) * g).to_vector<double>()[0];
      ASSERT_NEAR(found.data<double>()[tap], wanted, 1e-11 * (1 + std::abs(wanted))) << tap << " of " << L;
    }
  }
}

TEST(DepthwiseConvolution, RoundsOnceInBf16) {
  for (const int64_t dim : {1, 16, 32, 35}) {
    const FilterSize filter{3, 7};
    const Call given = call({2, 2, 30, dim}, filter, DType::bf16);
    const Tensor x = given.x.cast(DType::f32);
    const Tensor found = depthwise_convolution(given.x, given.taps, 6);
    const Tensor wanted = depthwise_convolution(x, given.taps, 6).cast(DType::bf16);
    EXPECT_EQ(found.cast(DType::f32).to_vector<float>(), wanted.cast(DType::f32).to_vector<float>()) << dim;
    EXPECT_EQ(depthwise_convolution_taps(given.x, given.x, filter, 6).to_vector<float>(),
              depthwise_convolution_taps(x, x, filter, 6).to_vector<float>());
  }
}

TEST(DepthwiseConvolution, ReadsNothingOutsideItsWindow) {
  const int64_t columns = 9, bad = 20;
  Call given = call({1, 1, 45, 2}, {3, 5}, DType::f32);
  given.x.data<float>()[bad * 2] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = depthwise_convolution(given.x, given.taps, columns).to_vector<float>();
  for (int64_t i = 0; i < 45; ++i) {
    const bool near = std::abs(i / columns - bad / columns) <= 1 && std::abs(i % columns - bad % columns) <= 2;
    EXPECT_EQ(std::isnan(y[static_cast<size_t>(2 * i)]), near) << i;
    EXPECT_FALSE(std::isnan(y[static_cast<size_t>(2 * i + 1)])) << i;
  }
}

TEST(DepthwiseConvolution, DoesNotDependOnThreads) {
  const Call given = call({3, 2, 300, 33}, {5, 35}, DType::f32);
  const auto both = [&] {
    return std::pair{depthwise_convolution(given.x, given.taps, 20).to_vector<float>(),
                     depthwise_convolution_taps(given.x, given.x, {5, 35}, 20).to_vector<float>()};
  };
  set_threads(1);
  const auto alone = both();
  set_threads(3);
  EXPECT_EQ(both(), alone);
  set_threads(0);
}

}  // namespace
}  // namespace bochner
