#include "engine/ops/reduce.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/ops/unary.h"
#include "engine/parallel.h"
#include "engine/random.h"

namespace bochner {
namespace {

/// Sums over the middle axis in double.
std::vector<double> plain_sum(const Tensor& x) {
  const std::vector<double> values = x.to_vector<double>();
  const auto [outer, count, inner] = std::array<int64_t, 3>{x.size(0), x.size(1), x.size(2)};
  std::vector<double> sums(static_cast<size_t>(outer * inner), 0);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < inner; ++j) {
        sums[static_cast<size_t>(o * inner + j)] += values[static_cast<size_t>((o * count + i) * inner + j)];
      }
    }
  }
  return sums;
}

TEST(Reduce, SumsOverAnyMiddleAxisWithEqualBitsForAnyNumberOfThreads) {
  Generator generator(4);
  for (const Shape& shape :
       {Shape{1, 3, 20000}, Shape{2, 1, 9000}, Shape{1, 50000, 1}, Shape{3, 700, 65}, Shape{1, 40000, 3},
        Shape{500, 7, 1}, Shape{2, 5, 1024}, Shape{1, 17, 1023}, Shape{4, 0, 3}, Shape{1, 1, 1}}) {
    const Tensor x = normal(shape, generator, 0, 1, DType::f64);
    const int before = threads();
    set_threads(1);
    const std::vector<double> alone = sum(x, {1}).to_vector<double>();
    set_threads(2);
    const std::vector<double> together = sum(x, {1}).to_vector<double>();
    set_threads(before);
    EXPECT_EQ(alone, together) << shape.str();
    const std::vector<double> expected = plain_sum(x);
    ASSERT_EQ(alone.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(alone[i], expected[i], 1e-9) << shape.str() << " at " << i;
  }
}

TEST(Reduce, AMeanOfEqualNumbersIsTheNumber) {
  for (const DType dtype : {DType::bf16, DType::f32, DType::f64}) {
    for (int64_t n = 1; n < 200; ++n) {
      const Tensor x = Tensor::full({n, 2}, 49, dtype);
      EXPECT_EQ(mean(x, {0}).to_vector<double>(), (std::vector<double>{49, 49})) << n;
      EXPECT_EQ((Tensor::full({1}, static_cast<double>(n), dtype) / static_cast<double>(n)).item(), 1) << n;
    }
  }
}

TEST(Reduce, ExtremesKeepNaN) {
  Tensor x = Tensor::zeros({40000});
  x.slice(0, 12345, 12346).fill_(NAN);
  EXPECT_TRUE(std::isnan(amax(x).item()));
  EXPECT_TRUE(std::isnan(amin(x).item()));
}

}  // namespace
}  // namespace bochner
