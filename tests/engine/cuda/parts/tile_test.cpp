// Index arithmetic and tile products of the card's kernels, on the CPU, in every build.
#include "engine/cuda/parts/tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/cuda/parts/elementwise.h"
#include "engine/cuda/parts/warp_group.h"
#include "engine/random.h"

namespace bochner::cuda {
namespace {

TEST(CudaTiles, QuotientsAreExact) {
  Generator generator(1);
  for (const int64_t d : {1L, 2L, 3L, 7L, 10L, 641L, 65535L, 65536L, 1000003L, 2147483647L}) {
    const Divider divider(d);
    for (const int64_t n : {int64_t{0}, d - 1, d, d + 1, int64_t{2147483646}, int64_t{2147483647}}) {
      if (n > 2147483647) continue;
      EXPECT_EQ(divider.quotient(static_cast<uint32_t>(n)), n / d) << n << " / " << d;
    }
    for (int i = 0; i < 2000; ++i) {
      const int64_t n = generator.below(int64_t{1} << 31);
      ASSERT_EQ(divider.quotient(static_cast<uint32_t>(n)), n / d) << n << " / " << d;
    }
  }
}

TEST(CudaTiles, LoopsBeyondTwoToThe31AreCutIntoPieces) {
  Loop loop;  // (3, 5, 2^30): never touched
  loop.rank = 3;
  loop.sizes = {3, 5, int64_t{1} << 30};
  loop.size = 15 * (int64_t{1} << 30);
  loop.strides[0] = {5 * (int64_t{1} << 30), int64_t{1} << 30, 1};
  loop.strides[1] = {0, int64_t{1} << 30, 1};  // broadcast along the first axis
  auto* const base = reinterpret_cast<char*>(uintptr_t{1} << 40);
  loop.data = {base, base, nullptr, nullptr};
  int64_t elements = 0;
  int64_t furthest = 0;
  for_each_piece<2>(loop,
                    [&](const Loop& piece, const Strides<2>& strides) {
                      ASSERT_LE(piece.size, INT32_MAX);
                      elements += piece.size;
                      const auto last = strides.offsets(static_cast<uint32_t>(piece.size - 1));
                      const int64_t begin = (static_cast<char*>(piece.data[0]) - base) / 4;
                      furthest = std::max(furthest, begin + last.at[0]);
                      EXPECT_LT((static_cast<char*>(piece.data[1]) - base) / 4 + last.at[1], 5 * (int64_t{1} << 30));
                    },
                    {4, 4});
  EXPECT_EQ(elements, loop.size);
  EXPECT_EQ(furthest, loop.size - 1);
}

TEST(CudaTiles, OffsetsFollowTheLayout) {
  const Tensor x = Tensor::zeros({4, 3, 5}).permute({2, 0, 1});
  const Tensor y = Tensor::zeros({5, 4, 3});
  const Loop loop = make_loop("test", {&y, &x});
  for_each_piece<2>(loop,
                    [&](const Loop& piece, const Strides<2>& strides) {
                      for (int64_t i = 0; i < piece.size; ++i) {
                        const auto offsets = strides.offsets(static_cast<uint32_t>(i));
                        EXPECT_EQ(offsets.at[0], i);
                        EXPECT_EQ(offsets.at[1], i / 12 + i / 3 % 4 * 15 + i % 3 * 5);
                      }
                    },
                    {4, 4});
}

TEST(CudaTiles, ProductsOfAnySize) {
  const HostTeam team(0, nullptr);
  for (const auto& [m, n, k] :
       {std::array{1, 1, 1}, std::array{7, 5, 3}, std::array{64, 33, 17}, std::array{4, 8, 64}}) {
    Generator generator(2);
    const auto values = [&](int rows, int columns) {
      std::vector<double> result(static_cast<size_t>(rows * tile_stride(columns)));
      for (double& x : result) x = generator.uniform();
      return result;
    };
    const std::vector<double> a = values(m, k);
    const std::vector<double> b = values(n, k);
    std::vector<double> c = values(m, n);
    const std::vector<double> before = c;
    multiply<true>(team, m, n, k, matrix<double>(a.data(), k), transposed<double>(b.data(), k), c.data(),
                   tile_stride(n));
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        const auto at = [](int row, int column, int width) {
          return static_cast<size_t>(row * tile_stride(width) + column);
        };
        double sum = before[at(i, j, n)];
        for (int l = 0; l < k; ++l) sum += a[at(i, l, k)] * b[at(j, l, k)];
        EXPECT_NEAR(c[at(i, j, n)], sum, 1e-12);
      }
    }
  }
}

TEST(CudaTiles, WarpTilesMultiplyWhatTheyRound) {
  std::vector<bfloat16> a(16 * 32);
  std::vector<bfloat16> b(24 * 40);
  Generator generator(3);
  for (bfloat16& x : a) x = bfloat16(static_cast<float>(generator.uniform()));
  for (bfloat16& x : b) x = bfloat16(static_cast<float>(generator.uniform()));
  Left<2> left;
  left.load(a.data(), 32);
  Sum<3> sum;
  sum.clear();
  multiply(sum, left, b.data(), 40);
  sum.each([&](int row, int column, float& x) {
    float expected = 0;
    for (size_t l = 0; l < 32; ++l) {
      expected += static_cast<float>(a[static_cast<size_t>(row) * 32 + l]) *
                  static_cast<float>(b[static_cast<size_t>(column) * 40 + l]);
    }
    EXPECT_NEAR(x, expected, 1e-4f);
  });
}

template <int D>
void expect_products_of_tiles() {
  constexpr int kRows = 64;
  constexpr int kStride = D + 8;
  std::vector<bfloat16> tokens(kRows * kStride);
  std::vector<bfloat16> rows(16 * kRows);
  Generator generator(5);
  for (bfloat16& x : tokens) x = bfloat16(static_cast<float>(generator.uniform()));
  for (bfloat16& x : rows) x = bfloat16(static_cast<float>(generator.uniform()));
  const auto wanted = [](int row) { return row % 5 != 0; };
  const auto token = [&](int row, int column) {
    return wanted(row) ? static_cast<float>(tokens[static_cast<size_t>(row * kStride + column)]) : 0.0f;
  };
  const auto left_at = [&](int row, int column) {
    return static_cast<float>(rows[static_cast<size_t>(row * kRows + column)]);
  };
  std::vector<Eight> memory(kRows * D / 8);
  auto* const tile = reinterpret_cast<bfloat16*>(memory.data());
  begin_copy_tile<128, kRows, D>(HostTeam(0, nullptr), tokens.data(), kStride, tile, wanted);

  Left<D / 16> a;
  a.load(rows.data(), kRows);
  Sum<kRows / 8> scores;
  begin_rows_product<true>(scores, a, GroupTile<D>(tile));
  scores.each([&](int row, int column, float& x) {
    float expected = 0;
    for (int k = 0; k < D; ++k) expected += left_at(row, k) * token(column, k);
    EXPECT_NEAR(x, expected, 1e-4f) << row << ", " << column;
  });

  Left<kRows / 16> p;
  p.load(rows.data(), kRows);
  Sum<D / 8> sums;
  sums.clear();
  for (int times = 0; times < 2; ++times) begin_columns_product(sums, p, GroupTile<D>(tile));
  sums.each([&](int row, int column, float& x) {
    float expected = 0;
    for (int k = 0; k < kRows; ++k) expected += 2 * left_at(row, k) * token(k, column);
    EXPECT_NEAR(x, expected, 1e-4f) << row << ", " << column;
  });
}

TEST(CudaTiles, FourWarpsMultiplyByTilesAsTheTensorCoresFindThem) {
  expect_products_of_tiles<32>();
  expect_products_of_tiles<64>();
  // The second row's first eight numbers come second if eight groups of eight are permuted; if four are, the third
  // row's do.
  EXPECT_EQ(tile_place<64>(1, 0), 64 + 8);
  EXPECT_EQ(tile_place<64>(8, 0), 8 * 64);
  EXPECT_EQ(tile_place<32>(1, 0), 32);
  EXPECT_EQ(tile_place<32>(2, 0), 64 + 8);
}

}  // namespace
}  // namespace bochner::cuda
