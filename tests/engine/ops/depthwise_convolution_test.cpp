#include "engine/ops/depthwise_convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "engine/parallel.h"
#include "engine/random.h"

namespace bochner {
namespace {

struct Call {
  Tensor x, taps;
};

Call call(const Shape& shape, int64_t width, DType dtype) {
  Generator draws(1);
  const DType compute = dtype == DType::bf16 ? DType::f32 : dtype;
  return {normal(shape, draws, 0, 1, DType::f64).cast(dtype),
          normal({shape[1], width}, draws, 0, 1, DType::f64).cast(compute)};
}

TEST(DepthwiseConvolution, IsTheSumOfItsEquation) {
  const int64_t B = 2, H = 3, L = 21, E = 19, width = 13;
  const Call given = call({B, H, L, E}, width, DType::f64);
  const std::vector<double> x = given.x.to_vector<double>();
  const std::vector<double> w = given.taps.to_vector<double>();
  for (const bool back : {false, true}) {
    const std::vector<double> y = depthwise_convolution(given.x, given.taps, back).to_vector<double>();
    for (int64_t n = 0; n < B * H * L * E; ++n) {
      const int64_t i = n / E % L;
      const int64_t h = n / E / L % H;
      double wanted = 0;
      for (int64_t t = 0; t < width; ++t) {
        const int64_t shift = back ? width / 2 - t : t - width / 2;
        if (i + shift < 0 || i + shift >= L) continue;
        wanted += w[static_cast<size_t>(h * width + t)] * x[static_cast<size_t>(n + shift * E)];
      }
      ASSERT_NEAR(y[static_cast<size_t>(n)], wanted, 1e-13) << n;
    }
  }
}

TEST(DepthwiseConvolution, RoundsOnceInBf16) {
  for (const int64_t dim : {1, 16, 32, 35}) {
    const Call given = call({2, 2, 30, dim}, 7, DType::bf16);
    const Tensor found = depthwise_convolution(given.x, given.taps);
    const Tensor wanted = depthwise_convolution(given.x.cast(DType::f32), given.taps).cast(DType::bf16);
    EXPECT_EQ(found.cast(DType::f32).to_vector<float>(), wanted.cast(DType::f32).to_vector<float>()) << dim;
    const Tensor taps = depthwise_convolution_taps(given.x, given.x, 7);
    EXPECT_EQ(taps.to_vector<float>(),
              depthwise_convolution_taps(given.x.cast(DType::f32), given.x.cast(DType::f32), 7).to_vector<float>());
  }
}

TEST(DepthwiseConvolution, ReadsNothingOutsideItsWindow) {
  const int64_t L = 40, width = 5, bad = 20;
  Call given = call({1, 1, L, 2}, width, DType::f32);
  given.x.data<float>()[bad * 2] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = depthwise_convolution(given.x, given.taps).to_vector<float>();
  for (int64_t i = 0; i < L; ++i) {
    EXPECT_EQ(std::isnan(y[static_cast<size_t>(2 * i)]), std::abs(i - bad) <= width / 2) << i;
    EXPECT_FALSE(std::isnan(y[static_cast<size_t>(2 * i + 1)])) << i;
  }
}

TEST(DepthwiseConvolution, DoesNotDependOnThreads) {
  const Call given = call({3, 2, 300, 33}, 35, DType::f32);
  const auto both = [&] {
    return std::pair{depthwise_convolution(given.x, given.taps).to_vector<float>(),
                     depthwise_convolution_taps(given.x, given.x, 35).to_vector<float>()};
  };
  set_threads(1);
  const auto alone = both();
  set_threads(3);
  EXPECT_EQ(both(), alone);
  set_threads(0);
}

}  // namespace
}  // namespace bochner
