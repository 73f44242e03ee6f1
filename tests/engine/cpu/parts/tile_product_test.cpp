#include "engine/cpu/parts/tile_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace bochner {
namespace {

/// Small integers: sums are exact in f32, so products must be equal to the last bit.
template <class T>
std::vector<T> integers(int64_t count, uint32_t seed) {
  std::vector<T> values(static_cast<size_t>(count));
  for (auto& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<T>(static_cast<int>(seed >> 24) % 17 - 8);
  }
  return values;
}

/// Compares with the naive triple loop; nothing outside C may be touched.
template <class T>
void check(int64_t rows, int64_t cols, int64_t depth, bool transposed, bool accumulate) {
  const int64_t ldb = cols + 3;
  const int64_t ldc = cols + 2;
  const cpu::TileStrides strides = transposed ? cpu::TileStrides{1, rows + 1} : cpu::TileStrides{depth + 1, 1};
  const auto a = integers<T>((rows + 1) * (depth + 1), 1);
  const auto b = integers<T>(depth * ldb + 1, 2);
  const auto before = integers<T>(rows * ldc, 3);
  auto c = before;
  auto expected = before;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      T sum = accumulate ? before[static_cast<size_t>(i * ldc + j)] : T(0);
      for (int64_t k = 0; k < depth; ++k) {
        sum += a[static_cast<size_t>(i * strides.row + k * strides.col)] * b[static_cast<size_t>(k * ldb + j)];
      }
      expected[static_cast<size_t>(i * ldc + j)] = sum;
    }
  }
  cpu::tile_product(rows, cols, depth, a.data(), strides, b.data(), ldb, c.data(), ldc, accumulate);
  ASSERT_EQ(c, expected) << rows << " x " << cols << " x " << depth << (transposed ? ", A^T" : "")
                         << (accumulate ? ", +=" : "");
}

template <class T>
class TileProduct : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(TileProduct, Types);

TYPED_TEST(TileProduct, EqualsTheNaiveProductForAllSmallSizes) {
  for (int64_t rows = 1; rows <= 35; ++rows) {
    for (int64_t cols = 1; cols <= 35; ++cols) {
      for (const int64_t depth : {int64_t{1}, (rows + cols) % 35 + 1}) {
        check<TypeParam>(rows, cols, depth, (rows + cols) % 2 == 0, rows % 2 == 0);
        check<TypeParam>(rows, cols, depth, (rows + cols) % 2 == 1, rows % 2 == 0);
      }
    }
  }
}

TYPED_TEST(TileProduct, EqualsTheNaiveProductAcrossStripsAndPanels) {
  for (const int64_t cols : {63, 64, 65, 81, 100, 128, 130}) {
    for (const int64_t depth : {1, 64, 127, 129, 300}) {
      for (const bool transposed : {false, true}) {
        for (const bool accumulate : {false, true}) check<TypeParam>(67, cols, depth, transposed, accumulate);
      }
    }
  }
}

TYPED_TEST(TileProduct, EmptyDepthGivesZerosOrKeepsC) {
  check<TypeParam>(5, 20, 0, false, false);
  check<TypeParam>(5, 20, 0, false, true);
  check<TypeParam>(0, 4, 3, false, false);
  check<TypeParam>(4, 0, 3, false, false);
}

TYPED_TEST(TileProduct, BitsDoNotDependOnHowRowsAreShared) {
  const int64_t rows = 100;
  const int64_t cols = 70;
  const int64_t depth = 333;
  std::vector<TypeParam> a(rows * depth);
  std::vector<TypeParam> b(depth * cols);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<TypeParam>(std::sin(0.1 * static_cast<double>(i)));
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<TypeParam>(std::cos(0.3 * static_cast<double>(i)));
  std::vector<TypeParam> whole(rows * cols);
  std::vector<TypeParam> parts(rows * cols);
  cpu::tile_product<TypeParam>(rows, cols, depth, a.data(), {depth, 1}, b.data(), cols, whole.data(), cols);
  for (int64_t i = 0; i < rows; i += 7) {
    cpu::tile_product<TypeParam>(std::min<int64_t>(7, rows - i), cols, depth, a.data() + i * depth, {depth, 1},
                                 b.data(), cols, parts.data() + i * cols, cols);
  }
  EXPECT_EQ(whole, parts);
}

}  // namespace
}  // namespace bochner
