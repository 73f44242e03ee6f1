#include "engine/ops/scan.h"

#include <gtest/gtest.h>

#include <limits>

#include "engine/parallel.h"
#include "engine/random.h"
#include "tests/engine/ops/counting.h"

namespace bochner {
namespace {

TEST(Cumsum, FourDirections) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    const Tensor x = Tensor::from<int64_t>({1, 2, 3, 4}, {4}).cast(dtype);
    const auto scan = [&](bool exclusive, bool reverse) {
      return cumsum(x, 0, {exclusive, reverse}).to_vector<double>();
    };
    EXPECT_EQ(scan(false, false), (std::vector<double>{1, 3, 6, 10}));
    EXPECT_EQ(scan(true, false), (std::vector<double>{0, 1, 3, 6}));
    EXPECT_EQ(scan(false, true), (std::vector<double>{10, 9, 7, 4}));
    EXPECT_EQ(scan(true, true), (std::vector<double>{9, 7, 4, 0}));
    EXPECT_EQ(cumsum(x, 0).dtype(), dtype);
  }
}

// Against the definition, for sizes around the width of a strip, in any layout.
TEST(Cumsum, IsTheRunningSumAlongEveryAxis) {
  Generator generator(1);
  for (const int64_t inner : {1, 2, 63, 64, 65, 200}) {
    const Tensor x = integers({3, inner, 7}, -9, 10, generator).cast(DType::f32).transpose(1, 2);  // (3, 7, inner)
    for (int axis = 0; axis < 3; ++axis) {
      for (const bool exclusive : {false, true}) {
        for (const bool reverse : {false, true}) {
          const Tensor y = cumsum(x, axis, {exclusive, reverse});
          const int64_t n = x.size(axis);
          std::vector<double> sum(static_cast<size_t>(x.size() / n));
          for (int64_t k = 0; k < n; ++k) {
            const int64_t i = reverse ? n - 1 - k : k;
            const auto term = x.select(axis, i).to_vector<double>();
            std::vector<double> expected = sum;
            for (size_t j = 0; j < sum.size(); ++j) sum[j] += term[j];
            if (!exclusive) expected = sum;
            ASSERT_EQ(y.select(axis, i).to_vector<double>(), expected) << inner << " " << axis;
          }
        }
      }
    }
  }
}

TEST(Cumsum, LongSumsInSingleDoNotDrift) {
  const int64_t n = 1 << 20;
  const auto y = cumsum(Tensor::full({n}, 0.1), 0).to_vector<double>();
  EXPECT_NEAR(y.back() / (static_cast<double>(0.1F) * static_cast<double>(n)), 1, 1e-7);  // in f32 sums: 1e-3 off
}

TEST(Cumsum, BitsDoNotDependOnThreads) {
  Generator generator(2);
  const Tensor x = normal({40, 100, 70}, generator);
  set_threads(1);
  const auto one = cumsum(x, 1).to_vector<float>();
  set_threads(3);
  EXPECT_EQ(cumsum(x, 1).to_vector<float>(), one);
  set_threads(0);
}

TEST(Cumsum, IntegersWrapAround) {
  const int64_t top = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(cumsum(Tensor::from<int64_t>({top, 1}, {2}), 0).to_vector<int64_t>()[1],
            std::numeric_limits<int64_t>::min());
}

TEST(Cumsum, EmptyAndMistakes) {
  EXPECT_EQ(cumsum(Tensor::zeros({0, 3}), 0).shape(), Shape({0, 3}));
  EXPECT_EQ(cumsum(Tensor::zeros({3, 0}), 0).shape(), Shape({3, 0}));
  EXPECT_EQ(cumsum(counting({1, 5}, DType::f32), 0).to_vector<float>(),
            counting({1, 5}, DType::f32).to_vector<float>());
  EXPECT_THROW(cumsum(Tensor::zeros({3}), 1), Error);
  EXPECT_THROW(cumsum(Tensor::scalar(1), 0), Error);
  EXPECT_THROW(cumsum(Tensor::zeros({3}, DType::u8), 0), Error);
}

}  // namespace
}  // namespace bochner
