// Helpers for the tests of fused kernels: comparison with naive double loops, central differences, and equal bytes for
// any number of threads.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "engine/parallel.h"
#include "engine/random.h"
#include "engine/tensor.h"

namespace bochner::oracle {

using Values = std::vector<double>;

/// Deterministic values of N(0, 1).
inline Tensor values(const Shape& shape, DType dtype, uint64_t seed) {
  Generator generator(seed);
  return normal(shape, generator, 0, 1, DType::f64).cast(dtype);
}
/// The same as every second column of a wider tensor, so that it is not contiguous.
inline Tensor strided(const Shape& shape, DType dtype, uint64_t seed) {
  Shape wide = shape;
  wide[-1] = 2 * wide[-1] + 1;
  return values(wide, dtype, seed).slice(-1, 1, 1 + 2 * shape[-1], 2);
}

/// |actual - expected| <= tolerance * max(1, |expected|), element by element.
inline void expect_close(const Tensor& actual, const Values& expected, double tolerance, const char* what) {
  const auto got = actual.to_vector<double>();
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << what << " at " << i;
  }
}

inline double tolerance_of(DType dtype) { return dtype == DType::f32 ? 2e-5 : 1e-12; }

/// The tensors that f returns have the same bytes with 1, 2 and 3 threads.
inline void expect_same_bytes(const std::function<std::vector<Tensor>()>& f) {
  const int before = threads();
  set_threads(1);
  const auto expected = f();
  for (const int count : {2, 3}) {
    set_threads(count);
    const auto got = f();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(got[i].shape() == expected[i].shape());
      const size_t bytes = static_cast<size_t>(got[i].size()) * size_of(got[i].dtype());
      EXPECT_TRUE(bytes == 0 || std::memcmp(got[i].raw(), expected[i].raw(), bytes) == 0)
          << "result " << i << " with " << count << " threads";
    }
  }
  set_threads(before);
}

/// d f / d x_i by central differences with h = 1e-5, x f64 and contiguous; f rereads x's memory each time.
inline double difference(const std::function<double()>& f, const Tensor& x, int64_t i) {
  double& at = x.data<double>()[i];
  const double kept = at;
  at = kept + 1e-5;
  const double above = f();
  at = kept - 1e-5;
  const double below = f();
  at = kept;
  return (above - below) / 2e-5;
}
/// The same for all elements of x.
inline Values differences(const std::function<double()>& f, const Tensor& x) {
  Values result;
  for (int64_t i = 0; i < x.size(); ++i) result.push_back(difference(f, x, i));
  return result;
}
/// Compares dx with differences of f at one element of x in `every`.
inline void expect_gradient(const Tensor& dx, const std::function<double()>& f, const Tensor& x, int64_t every) {
  const Values found = dx.to_vector<double>();
  for (int64_t i = 0; i < x.size(); i += every) {
    const double g = found[static_cast<size_t>(i)];
    ASSERT_NEAR(difference(f, x, i), g, 1e-7 * std::max(1.0, std::abs(g))) << "at " << i;
  }
}

/// sum of the products of two tensors' elements.
inline double dot(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>();
  const auto y = b.to_vector<double>();
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) total += x[i] * y[i];
  return total;
}

}  // namespace bochner::oracle
