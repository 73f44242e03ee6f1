#include "engine/ops/gaussian.h"

#include <gtest/gtest.h>

#include "engine/ops/binary.h"
#include "tests/engine/ops/oracle.h"

namespace bochner {
namespace {

using oracle::Values;

constexpr int64_t kBatch = 2, kHeads = 3, kDim = 5;

/// exp(-|x_i - y_j|^2 / 2) by its definition.
Values expected(const Tensor& x, const Tensor& y, const Tensor& mask) {
  const Values a = x.to_vector<double>();
  const Values b = y.to_vector<double>();
  const auto real = mask.defined() ? mask.cast(DType::i64).to_vector<int64_t>() : std::vector<int64_t>();
  const int64_t n = x.size(2);
  const int64_t m = y.size(2);
  Values result;
  for (int64_t matrix = 0; matrix < kBatch * kHeads; ++matrix) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < m; ++j) {
        double distance = 0;
        for (int64_t d = 0; d < kDim; ++d) {
          const double apart =
              a[static_cast<size_t>((matrix * n + i) * kDim + d)] - b[static_cast<size_t>((matrix * m + j) * kDim + d)];
          distance += apart * apart;
        }
        const bool hidden = mask.defined() && real[static_cast<size_t>(matrix / kHeads * m + j)] == 0;
        result.push_back(hidden ? 0 : std::exp(-distance / 2));
      }
    }
  }
  return result;
}

TEST(GaussianKernel, EqualsItsDefinition) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const auto& [n, m] : {std::pair<int64_t, int64_t>{0, 4}, {1, 1}, {4, 0}, {7, 65}, {130, 33}}) {
      const Tensor x = oracle::strided({kBatch, kHeads, n, kDim}, dtype, 1);
      const Tensor y = oracle::values({kBatch, kHeads, m, kDim}, dtype, 2);
      const Tensor mask = less(Tensor::arange(m).unsqueeze(0), Tensor::from<int64_t>({m / 2, m}, {2, 1}));
      for (const Tensor& keys : {Tensor(), mask}) {
        oracle::expect_close(gaussian_kernel(x, y, keys), expected(x, y, keys), oracle::tolerance_of(dtype), "C");
      }
      oracle::expect_same_bytes([&] {
        const Tensor C = gaussian_kernel(x, y, mask);
        const GaussianGradients grads = gaussian_kernel_backward(C, C, x, y);
        return std::vector<Tensor>{C, grads.dx, grads.dy};
      });
    }
  }
}

TEST(GaussianKernel, TokensThatAreVeryFarHaveNeitherWeightNorGradient) {
  const Tensor x = oracle::values({kBatch, kHeads, 3, kDim}, DType::f32, 1);
  const Tensor y = oracle::values({kBatch, kHeads, 4, kDim}, DType::f32, 2);
  y.slice(2, 1, 2).fill_(1e30);
  x.slice(2, 2, 3).fill_(1e30);
  const Tensor C = gaussian_kernel(x, y, {});
  const Tensor dC = Tensor::full(C.shape(), 1e30);
  const GaussianGradients grads = gaussian_kernel_backward(dC, C, x, y);
  for (const Tensor& none : {C.slice(3, 1, 2), C.slice(2, 2, 3), grads.dx.slice(2, 2, 3), grads.dy.slice(2, 1, 2)}) {
    for (const double value : none.to_vector<double>()) EXPECT_EQ(value, 0);
  }
  for (const double value : grads.dx.to_vector<double>()) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace bochner
