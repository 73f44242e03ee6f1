// Products of sizes that need every way of dividing them (engine/cpu/matmul.cpp): tiles at edges, panels of B, splits
// and parts of the inner axis, transposed operands, and matrices that several products share.
#include "engine/ops/matmul.h"

#include <array>

#include "tests/engine/ops/oracle.h"

namespace bochner {
namespace {

using namespace oracle;  // NOLINT

struct Sizes {
  int64_t m, n, k;
};

constexpr std::array kCases{Sizes{1, 1, 1},       Sizes{17, 63, 5},     Sizes{5, 65, 129},
                            Sizes{16, 300, 260},  Sizes{130, 257, 300}, Sizes{129, 129, 513},
                            Sizes{200, 70, 2600}, Sizes{3, 200, 5000},  Sizes{64, 64, 4200}};

/// (batch x rows x columns), or stored as its transpose
Tensor matrices(const Shape& batch, int64_t rows, int64_t columns, bool transposed, DType dtype, uint64_t seed) {
  Shape shape = batch;
  shape.push_back(transposed ? columns : rows);
  shape.push_back(transposed ? rows : columns);
  const Tensor x = values(shape, dtype, seed);
  return transposed ? x.transpose(-1, -2) : x;
}

/// C = A B in double, summed in the plain order.
Values by_definition(const Tensor& a, const Tensor& b) {
  const int64_t m = a.size(-2), n = b.size(-1), k = a.size(-1);
  const auto x = a.to_vector<double>();
  const auto y = b.to_vector<double>();
  Values c(static_cast<size_t>(m * n), 0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t l = 0; l < k; ++l) {
      const double value = x[static_cast<size_t>(i * k + l)];
      for (int64_t j = 0; j < n; ++j) c[static_cast<size_t>(i * n + j)] += value * y[static_cast<size_t>(l * n + j)];
    }
  }
  return c;
}

class Matmul : public ::testing::TestWithParam<DType> {};

TEST_P(Matmul, IsTheSumOfProductsForEveryCutAndLayout) {
  for (const Sizes& one : kCases) {
    for (const bool left : {false, true}) {
      for (const bool right : {false, true}) {
        SCOPED_TRACE(fmt::format("{} x {} x {}, transposed {} {}", one.m, one.n, one.k, left, right));
        const Tensor a = matrices({}, one.m, one.k, left, GetParam(), 1);
        const Tensor b = matrices({}, one.k, one.n, right, GetParam(), 2);
        const double rounding = tolerance_of(GetParam()) * std::sqrt(static_cast<double>(one.k));
        expect_close(matmul(a, b), by_definition(a, b), rounding, "C");
      }
    }
  }
}

TEST_P(Matmul, TakesPartsOfLargerMatrices) {
  const Tensor a = values({140, 700}, GetParam(), 1).slice(1, 30, 430);
  const Tensor b = values({420, 290}, GetParam(), 2).slice(0, 10, 410).slice(1, 7, 207);
  expect_close(matmul(a, b), by_definition(a, b), 20 * tolerance_of(GetParam()), "C");
}

TEST_P(Matmul, SharesMatricesAmongABatch) {
  const Tensor a = matrices({2, 3}, 20, 270, false, GetParam(), 1);
  const Tensor b = matrices({2, 1}, 270, 150, true, GetParam(), 2);
  const Tensor c = matmul(a, b);
  ASSERT_TRUE(c.shape() == Shape({2, 3, 20, 150}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      expect_close(c.select(0, i).select(0, j), by_definition(a.select(0, i).select(0, j), b.select(0, i).select(0, 0)),
                   20 * tolerance_of(GetParam()), "C");
    }
  }
}

TEST_P(Matmul, SharesTransposedMatricesAmongABatch) {
  const Tensor a = matrices({2, 1}, 140, 30, true, GetParam(), 1);
  const Tensor b = matrices({2, 3}, 30, 260, false, GetParam(), 2);
  const Tensor c = matmul(a, b);
  ASSERT_TRUE(c.shape() == Shape({2, 3, 140, 260}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      expect_close(c.select(0, i).select(0, j), by_definition(a.select(0, i).select(0, 0), b.select(0, i).select(0, j)),
                   20 * tolerance_of(GetParam()), "C");
    }
  }
}

TEST(LongMatmul, HasNoEmptyPart) {
  // Split into parts of 2,049, since 2,050 of them would be one too many.
  constexpr int64_t kInner = 4198401;
  const Tensor ones = Tensor::full({1, kInner}, 1, DType::f32);
  for (int round = 0; round < 2; ++round) {
    Tensor::full({2050}, NAN, DType::f32);  // what the arena hands out next
    EXPECT_EQ(matmul(ones, ones.transpose(0, 1)).item(), kInner);
  }
}

TEST_P(Matmul, HasTheSameBytesForAnyNumberOfThreads) {
  for (const Sizes& one : kCases) {
    const Tensor a = matrices({}, one.m, one.k, true, GetParam(), 1);
    const Tensor b = matrices({}, one.k, one.n, false, GetParam(), 2);
    expect_same_bytes([&] { return std::vector{matmul(a, b)}; });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Matmul, ::testing::Values(DType::f32, DType::f64),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace bochner
