#include "engine/ops/dropout.h"

#include "engine/philox.h"
#include "tests/engine/ops/oracle.h"

namespace bochner {
namespace {

using namespace oracle;  // NOLINT

/// Factor i by the definition: 16-bit number i of the stream, lower half first.
double factor(const Dropout& drop, int64_t i) {
  const uint32_t word = philox_word(drop.place.seed(), drop.place.offset() + static_cast<uint64_t>(i) / 2);
  const uint32_t half = i % 2 == 0 ? word & 0xFFFFU : word >> 16;
  return half >= drop.threshold ? 65536.0 / (65536.0 - drop.threshold) : 0.0;
}

TEST(Dropout, FollowsTheStreamAtEveryPlace) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const int64_t size : {0, 1, 2, 3, 100, 1983, 1984, 1985, 4099, 70001}) {
      for (const uint64_t offset : {uint64_t{0}, uint64_t{5}, (uint64_t{1} << 34) - 2}) {
        const Dropout drop = Dropout::at(0.3, Generator(77, offset));
        const Tensor x = values({size}, dtype, 1);
        const auto xs = x.to_vector<double>();
        Values mask, y;
        for (int64_t i = 0; i < size; ++i) {
          const auto k = static_cast<size_t>(i);
          mask.push_back(factor(drop, i));
          y.push_back(xs[k] * mask[k]);
        }
        expect_close(dropout_mask({size}, drop, dtype), mask, 1e-7, "mask");
        expect_close(dropout(x, drop), y, 1e-6, "y");
      }
    }
  }
}

TEST(Dropout, InBf16IsRoundedOnce) {
  for (const int64_t size : {1, 100, 1985, 70001}) {
    const Dropout drop = Dropout::at(0.3, Generator(77, 5));
    const Tensor x = values({size}, DType::bf16, 1);
    const Tensor y = dropout(x, drop);
    EXPECT_EQ(y.dtype(), DType::bf16);
    EXPECT_EQ(y.to_vector<double>(), dropout(x.cast(DType::f32), drop).cast(DType::bf16).to_vector<double>());
  }
}

TEST(Dropout, MeanAndShareAreRight) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const auto mask = dropout_mask({1000000}, Dropout::at(p, Generator(3)), DType::f64).to_vector<double>();
    double kept = 0;
    double total = 0;
    for (const double m : mask) {
      kept += m > 0;
      total += m;
    }
    EXPECT_NEAR(kept / 1e6, 1 - p, 0.002);
    EXPECT_NEAR(total / 1e6, 1, 0.01);
  }
}

TEST(Dropout, EndsOfTheRange) {
  Generator generator(1);
  const Tensor x = values({10}, DType::f64, 1);
  EXPECT_FALSE(Dropout::draw(0, 10, generator).active());
  EXPECT_EQ(generator.offset(), 0U);
  EXPECT_TRUE(Dropout::draw(0.5, 10, generator).active());
  EXPECT_EQ(generator.offset(), 8U);  // five words, in blocks of four
  expect_close(dropout(x, Dropout()), x.to_vector<double>(), 0, "p = 0");
  expect_close(dropout(x, Dropout::at(1, Generator(1))), Values(10, 0.0), 0, "p = 1");
  EXPECT_THROW(Dropout::at(-0.1, Generator(1)), Error);
  EXPECT_THROW(Dropout::at(1.5, Generator(1)), Error);
  EXPECT_THROW(Dropout::at(NAN, Generator(1)), Error);
}

TEST(Dropout, BytesDoNotDependOnThreads) {
  const Tensor x = values({3000017}, DType::f32, 1);
  const Dropout drop = Dropout::at(0.2, Generator(5, 4));
  expect_same_bytes([&] { return std::vector<Tensor>{dropout(x, drop), dropout_mask(x.shape(), drop)}; });
}

}  // namespace
}  // namespace bochner
