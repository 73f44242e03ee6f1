#include "engine/ops/hadamard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "engine/parallel.h"
#include "engine/random.h"

namespace bochner {
namespace {

/// H_2n = [H_n H_n; H_n -H_n], row-major.
std::vector<double> kronecker_power(int64_t n) {
  if (n == 1) return {1};
  const int64_t half = n / 2;
  const std::vector<double> inner = kronecker_power(half);
  std::vector<double> h(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const double value = inner[static_cast<size_t>(i % half * half + j % half)];
      h[static_cast<size_t>(i * n + j)] = i >= half && j >= half ? -value : value;
    }
  }
  return h;
}

/// Small integers: every sum is exact, in any order.
Tensor small_integers(const Shape& shape, DType dtype, uint64_t seed) {
  Generator generator(seed);
  return integers(shape, -8, 9, generator).cast(dtype);
}

TEST(Hadamard, IsTheKroneckerPower) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (int64_t n = 1; n <= 1024; n *= 2) {
      for (const int64_t rows : {1, 3, 17}) {
        const Tensor x = small_integers({rows, n}, dtype, static_cast<uint64_t>(n));
        const auto h = kronecker_power(n);
        const auto values = x.to_vector<double>();
        const auto y = hadamard(x).to_vector<double>();
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < n; ++i) {
            double expected = 0;
            for (int64_t j = 0; j < n; ++j)
              expected += h[static_cast<size_t>(i * n + j)] * values[static_cast<size_t>(r * n + j)];
            ASSERT_EQ(y[static_cast<size_t>(r * n + i)], expected) << n << " " << r << " " << i;
          }
        }
      }
    }
  }
}

// Single entries of long rows, against the sign (-1)^popcount(i & j).
TEST(Hadamard, LongRowsHaveTheRightSigns) {
  for (const int64_t n : {4096, 32768, 65536, 1 << 20}) {
    const Tensor x = small_integers({2, n}, DType::f64, static_cast<uint64_t>(n));
    const auto values = x.to_vector<double>();
    const auto y = hadamard(x).to_vector<double>();
    Generator places(7);
    for (int k = 0; k < 20; ++k) {
      const int64_t i = k == 0 ? n - 1 : places.below(n);
      const int64_t row = k % 2;
      double expected = 0;
      for (int64_t j = 0; j < n; ++j) {
        const bool odd = std::popcount(static_cast<uint64_t>(i & j)) % 2 != 0;
        expected += (odd ? -1 : 1) * values[static_cast<size_t>(row * n + j)];
      }
      ASSERT_EQ(y[static_cast<size_t>(row * n + i)], expected) << n << " " << i;
    }
  }
}

TEST(Hadamard, TwiceIsTheIdentityTimesN) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (int64_t n = 1; n <= 1 << 18; n *= 2) {
      const Tensor x = small_integers({3, n}, dtype, 5);
      const auto twice = hadamard(hadamard(x)).to_vector<double>();
      const auto values = x.to_vector<double>();
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(twice[i], values[i] * static_cast<double>(n)) << n;
      }
    }
  }
}

TEST(Hadamard, InPlaceEqualsOutOfPlaceForAnyLayoutAndThreads) {
  Generator generator(2);
  for (const int64_t n : {4, 64, 512, 65536}) {
    const Tensor x = normal({n, 5}, generator).transpose(0, 1);
    set_threads(1);
    const auto expected = hadamard(x).to_vector<float>();
    set_threads(3);
    EXPECT_EQ(hadamard(x).to_vector<float>(), expected);
    hadamard_(x);
    EXPECT_EQ(x.to_vector<float>(), expected);
    const Tensor buffer = normal({3, n + 1}, generator).view({3 * (n + 1)});
    const Tensor rows = buffer.slice(0, 1, 1 + 3 * n).view({3, n});  // not aligned
    const auto unaligned = hadamard(rows).to_vector<float>();
    const float before = buffer.to_vector<float>().front();
    const float after = buffer.to_vector<float>().back();
    hadamard_(rows);
    EXPECT_EQ(rows.to_vector<float>(), unaligned);
    EXPECT_EQ(buffer.to_vector<float>().front(), before);
    EXPECT_EQ(buffer.to_vector<float>().back(), after);
  }
  set_threads(0);
}

TEST(Hadamard, EmptyAndSingle) {
  EXPECT_EQ(hadamard(Tensor::zeros({0, 8})).shape(), Shape({0, 8}));
  EXPECT_EQ(hadamard(Tensor::full({3, 1}, 4)).to_vector<float>(), std::vector<float>(3, 4.F));
}

TEST(Hadamard, RefusesWhatIsNoPowerOfTwo) {
  EXPECT_THROW(hadamard(Tensor::zeros({2, 12})), Error);
  EXPECT_THROW(hadamard(Tensor::zeros({2, 0})), Error);
  EXPECT_THROW(hadamard(Tensor::scalar(1)), Error);
  EXPECT_THROW(hadamard(Tensor::zeros({2, 4}, DType::i64)), Error);
}

}  // namespace
}  // namespace bochner
