// Products of bf16: both orders of addition, by the processor's own instructions and by ordinary ones, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "engine/cpu/bf16/pack.h"
#include "engine/cpu/parts/stored.h"
#include "engine/sanitizer.h"

namespace bochner::cpu {
namespace {

constexpr Bf16Order kOrders[] = {Bf16Order::pairs, Bf16Order::tiles};

uint32_t bits_of(float x) { return math::bits_as<uint32_t>(x); }
float float_of(uint32_t bits) { return math::bits_as<float>(bits); }

/// A number below 2^-126 counts as zero.
float flushed(float x) { return (bits_of(x) & 0x7F800000U) == 0 ? float_of(bits_of(x) & 0x80000000U) : x; }
/// a b + c, rounded once.
float fused(float a, float b, float c) { return flushed(std::fma(flushed(a), flushed(b), flushed(c))); }

bool same(float a, float b) { return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b)); }

/// The definition in product.h, number by number: the element of C for a row of A and a column of B of depth 32.
float defined(Bf16Order order, const float* a, const float* b, float c) {
  if (order == Bf16Order::pairs) {
    for (int p = 0; p < 16; ++p) c = fused(a[2 * p], b[2 * p], fused(a[2 * p + 1], b[2 * p + 1], c));
    return c;
  }
  float even = 0;
  float odd = 0;
  for (int p = 0; p < 16; ++p) {
    even = fused(a[2 * p], b[2 * p], even);
    odd = fused(a[2 * p + 1], b[2 * p + 1], odd);
  }
  return flushed(flushed(c) + flushed(even + odd));
}

/// Bits of bf16 numbers: of any kind, or (more often) of similar size, so that sums cancel and round.
class Draws {
 public:
  uint16_t operator()(bool any) {
    if (left_ == 0) {
      word_ = random_();
      left_ = 4;
    }
    --left_;
    const auto bits = static_cast<uint16_t>(word_ >> (16 * left_));
    return any ? bits : static_cast<uint16_t>((bits & 0x83FFU) | 0x3C00U);
  }

 private:
  std::mt19937_64 random_{7};
  uint64_t word_ = 0;
  int left_ = 0;
};

/// 20 million elements of C, of one tile each.
TEST(Bf16Product, InstructionsAndOrdinaryArithmeticAgreeBitForBit) {
  constexpr int kSums = 256;
  const int trials = kAddressSanitizer ? 500 : 40000;
  Draws draw;
  std::vector<bfloat16> a(512);
  std::vector<bfloat16> b(512);
  std::vector<float> start(kSums);
  int64_t differ = 0;
  int64_t undefined = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const bool any = trial % 4 == 0;
    const bool small = trial % 4 == 1;  // around 2^-126, where numbers are flushed
    for (bfloat16& x : a) x.bits = static_cast<uint16_t>(draw(any) - (small ? 0x1F00 : 0));
    for (bfloat16& x : b) x.bits = static_cast<uint16_t>(draw(any) - (small ? 0x1F00 : 0));
    for (float& x : start) {
      const uint32_t upper = draw(any);
      x = float_of((upper << 16 | draw(true)) & (small ? 0x81FFFFFFU : 0xFFFFFFFFU));
    }
    for (const Bf16Order order : kOrders) {
      std::vector<float> ordinary = start;
      bf16_product(order, Bf16By::ordinary, 16, 16, 32, a.data(), b.data(), ordinary.data(), 16, true);
      if (has_bf16_instruction(order)) {
        std::vector<float> instruction = start;
        bf16_product(order, Bf16By::instruction, 16, 16, 32, a.data(), b.data(), instruction.data(), 16, true);
        for (size_t i = 0; i < kSums; ++i) differ += same(ordinary[i], instruction[i]) ? 0 : 1;
      }
      const auto at = static_cast<size_t>(trial % kSums);
      float row[32];
      float column[32];
      for (size_t k = 0; k < 32; ++k) {
        row[k] = static_cast<float>(a[at / 16 * 32 + k]);
        column[k] = static_cast<float>(b[k / 2 * 32 + at % 16 * 2 + k % 2]);
      }
      undefined += same(ordinary[at], defined(order, row, column, start[at])) ? 0 : 1;
    }
  }
  EXPECT_EQ(differ, 0);
  EXPECT_EQ(undefined, 0);
}

/// There are two different orders: with numbers of similar size the results differ.
TEST(Bf16Product, TheOrdersDiffer) {
  Draws draw;
  std::vector<bfloat16> a(512);
  std::vector<bfloat16> b(512);
  for (bfloat16& x : a) x.bits = draw(false);
  for (bfloat16& x : b) x.bits = draw(false);
  std::vector<float> pairs(256);
  std::vector<float> tiles(256);
  bf16_product(Bf16Order::pairs, Bf16By::ordinary, 16, 16, 32, a.data(), b.data(), pairs.data(), 16, false);
  bf16_product(Bf16Order::tiles, Bf16By::ordinary, 16, 16, 32, a.data(), b.data(), tiles.data(), 16, false);
  EXPECT_NE(pairs, tiles);
}

std::vector<float> normals(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) value = normal(random);
  return x;
}

/// x[i, k] of packed factors: tiles of 16 lines by 32 of the depth; in a right factor, pairs by lines.
bfloat16 packed_at(const std::vector<bfloat16>& packed, int64_t depth, int64_t line, int64_t k, bool right) {
  const int64_t tile = line / 16 * ceil_div(depth, 32) + k / 32;
  const int64_t within = right ? k % 32 / 2 * 32 + line % 16 * 2 + k % 2 : line % 16 * 32 + k % 32;
  return packed[static_cast<size_t>(tile * 512 + within)];
}

template <class S>
void expect_packed(int64_t lines, int64_t depth) {
  const int64_t gap = 3;
  for (const bool along : {true, false}) {  // numbers along the depth are adjacent, or lines are
    const int64_t stride = (along ? depth : lines) + gap;
    std::vector<float> values = normals((along ? lines : depth) * stride, 5);
    values[0] = 1e-39F;
    values[values.size() / 2] = std::numeric_limits<float>::infinity();
    values.back() = std::numeric_limits<float>::quiet_NaN();
    std::vector<S> x(values.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = S(values[i]);
    const auto expected = [&](int64_t line, int64_t k) {
      if (line >= lines || k >= depth) return 0.0F;
      const auto value = static_cast<float>(x[static_cast<size_t>(along ? line * stride + k : k * stride + line)]);
      return std::is_same_v<S, float> ? static_cast<float>(bfloat16(flushed(value))) : value;
    };
    const TileStrides of_left = along ? TileStrides{stride, 1} : TileStrides{1, stride};
    std::vector<bfloat16> left(static_cast<size_t>(packed_size(lines, depth)));
    std::vector<bfloat16> right(left.size());
    pack_left(lines, depth, x.data(), of_left, left.data());
    pack_right(depth, lines, x.data(), {of_left.col, of_left.row}, right.data());
    for (int64_t i = 0; i < round_up(lines, 16); ++i) {
      for (int64_t k = 0; k < round_up(depth, 32); ++k) {
        EXPECT_TRUE(same(static_cast<float>(packed_at(left, depth, i, k, false)), expected(i, k)))
            << i << ", " << k << " of the left";
        EXPECT_TRUE(same(static_cast<float>(packed_at(right, depth, i, k, true)), expected(i, k)))
            << i << ", " << k << " of the right";
      }
    }
  }
}

TEST(Bf16Product, FactorsArePackedFromAnyLayout) {
  for (const auto& [lines, depth] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {16, 32}, {17, 33}, {40, 70}}) {
    expect_packed<float>(lines, depth);
    expect_packed<bfloat16>(lines, depth);
  }
}

/// Ten million words of f32 of any kind, and those at the edges, rounded by packers, which use the processor's
/// instruction (vcvtne2ps2bf16) if it has one, and by stores of vectors (vcvtneps2bf16), in the same way as ordinary
/// arithmetic rounds them.
TEST(Bf16Product, TheInstructionRoundsAsOrdinaryArithmetic) {
  constexpr int64_t kLines = 256;
  constexpr int64_t kDepth = 1024;
  constexpr uint32_t kEdges[] = {0x00000000, 0x00000001, 0x007F7FFF, 0x007FFFFF, 0x00800000, 0x3F808000,
                                 0x3F818000, 0x3F808001, 0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0x7F800000,
                                 0x7F800001, 0x7F80FFFF, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF};
  Draws draw;
  std::vector<float> x(kLines * kDepth);
  std::vector<bfloat16> left(x.size());
  std::vector<bfloat16> right(x.size());
  std::vector<bfloat16> stored(x.size());
  int64_t differ = 0;
  for (int trial = 0; trial < (kAddressSanitizer ? 2 : 40); ++trial) {
    for (float& value : x) {
      const uint32_t upper = draw(true);
      value = float_of(upper << 16 | draw(true));
    }
    for (size_t i = 0; i < std::size(kEdges); ++i) {
      x[97 * i] = float_of(kEdges[i]);
      x[97 * i + 50] = float_of(kEdges[i] | 0x80000000);
    }
    const bool along = trial % 2 == 0;  // rows are lines along the depth, or their transpose
    const int64_t stride = along ? kDepth : kLines;
    const TileStrides strides = along ? TileStrides{stride, 1} : TileStrides{1, stride};
    pack_left(kLines, kDepth, x.data(), strides, left.data());
    pack_right(kDepth, kLines, x.data(), {strides.col, strides.row}, right.data());
    for (size_t i = 0; i < x.size(); i += kLanes<float>) {
      store(stored.data() + i, load<Vector<float>>(x.data() + i));
    }
    for (int64_t line = 0; line < kLines; ++line) {
      for (int64_t k = 0; k < kDepth; ++k) {
        const auto from = static_cast<size_t>(along ? line * stride + k : k * stride + line);
        const auto expected = static_cast<uint16_t>(rounded_words(bits_of(x[from])) >> 16);
        differ += packed_at(left, kDepth, line, k, false).bits != expected;
        differ += packed_at(right, kDepth, line, k, true).bits != expected;
        differ += stored[from].bits != expected;
      }
    }
  }
  EXPECT_EQ(differ, 0);
}

TEST(Bf16Product, OddSizesStayWithinCAndAgreeBitForBit) {
  // The last one has several blocks of both factors.
  const std::vector<std::array<int64_t, 3>> sizes = {{1, 1, 1},    {16, 16, 32}, {17, 5, 31},   {33, 64, 100},
                                                     {64, 47, 64}, {5, 130, 3},  {150, 70, 300}};
  for (const auto& [m, n, k] : sizes) {
    const std::vector<float> a = normals(m * k, 1);
    const std::vector<float> b = normals(k * n, 2);
    std::vector<bfloat16> left(static_cast<size_t>(packed_size(m, k)));
    std::vector<bfloat16> right(static_cast<size_t>(packed_size(n, k)));
    pack_left(m, k, a.data(), {k, 1}, left.data());
    pack_right(k, n, b.data(), {n, 1}, right.data());
    const int64_t ldc = n + 2;
    for (const Bf16Order order : kOrders) {
      for (const bool accumulate : {false, true}) {
        std::vector<float> ordinary;
        for (const Bf16By by : {Bf16By::ordinary, Bf16By::instruction}) {
          if (by == Bf16By::instruction && !has_bf16_instruction(order)) continue;
          std::vector<float> c(static_cast<size_t>(m * ldc), 0.5F);
          bf16_product(order, by, m, n, k, left.data(), right.data(), c.data(), ldc, accumulate);
          if (by == Bf16By::ordinary) ordinary = c;
          EXPECT_EQ(c, ordinary);
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < ldc; ++j) {
              double sum = accumulate || j >= n ? 0.5 : 0;
              for (int64_t d = 0; d < k && j < n; ++d) {
                sum += static_cast<double>(static_cast<float>(bfloat16(a[static_cast<size_t>(i * k + d)]))) *
                       static_cast<float>(bfloat16(b[static_cast<size_t>(d * n + j)]));
              }
              EXPECT_NEAR(c[static_cast<size_t>(i * ldc + j)], sum, 1e-4) << i << ", " << j;
            }
          }
        }
      }
    }
  }
}

TEST(Bf16Product, TheDescriptionNamesOrderAndInstruction) {
  const std::string text = bf16_description();
  EXPECT_TRUE(text.starts_with(bf16_order() == Bf16Order::tiles ? "tiles, by " : "pairs, by ")) << text;
  EXPECT_EQ(text.find("ordinary instructions") != std::string::npos, bf16_by() == Bf16By::ordinary) << text;
}

}  // namespace
}  // namespace bochner::cpu
