#include "engine/ops/norm.h"

#include "tests/engine/ops/oracle.h"

namespace bochner {
namespace {

using namespace oracle;  // NOLINT

struct Reference {
  Values y, mean, rstd, dx, dgamma, dbeta;
};

/// Rows of x normalised over d, and the gradients from g, in plain double loops.
Reference layer_norm_loops(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& g, double eps) {
  const auto d = static_cast<size_t>(x.size(-1));
  const auto xs = x.to_vector<double>();
  const auto gs = g.to_vector<double>();
  const auto scale = gamma.to_vector<double>();
  const auto shift = beta.to_vector<double>();
  Reference r;
  r.dgamma.assign(d, 0);
  r.dbeta.assign(d, 0);
  for (size_t row = 0; d > 0 && row < xs.size() / d; ++row) {
    double mean = 0;
    double variance = 0;
    for (size_t i = 0; i < d; ++i) mean += xs[row * d + i] / static_cast<double>(d);
    for (size_t i = 0; i < d; ++i) variance += std::pow(xs[row * d + i] - mean, 2) / static_cast<double>(d);
    const double rstd = 1 / std::sqrt(variance + eps);
    double mean_h = 0;
    double mean_hx = 0;
    for (size_t i = 0; i < d; ++i) {
      const double xhat = (xs[row * d + i] - mean) * rstd;
      const double gradient = gs[row * d + i];
      r.y.push_back(xhat * scale[i] + shift[i]);
      r.dgamma[i] += gradient * xhat;
      r.dbeta[i] += gradient;
      mean_h += gradient * scale[i] / static_cast<double>(d);
      mean_hx += gradient * scale[i] * xhat / static_cast<double>(d);
    }
    for (size_t i = 0; i < d; ++i) {
      const double xhat = (xs[row * d + i] - mean) * rstd;
      r.dx.push_back(rstd * (gs[row * d + i] * scale[i] - mean_h - xhat * mean_hx));
    }
    r.mean.push_back(mean);
    r.rstd.push_back(rstd);
  }
  return r;
}

TEST(LayerNorm, EqualsPlainLoops) {
  uint64_t seed = 1;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{3, 5}, Shape{1, 1}, Shape{7, 64}, Shape{2, 5, 33}, Shape{700, 17}, Shape{4, 1000},
                               Shape{0, 8}, Shape{1, 16}, Shape{9}, Shape{37, 100}}) {
      const Tensor x = strided(shape, dtype, ++seed);
      const Tensor g = strided(shape, dtype, ++seed);
      const Tensor gamma = values({shape[-1]}, dtype, ++seed);
      const Tensor beta = values({shape[-1]}, dtype, ++seed);
      const double tolerance = 10 * tolerance_of(dtype);
      const Reference expected = layer_norm_loops(x, gamma, beta, g, 1e-3);
      const NormResult norm = layer_norm(x, gamma, beta, 1e-3);
      expect_close(norm.y, expected.y, tolerance, "y");
      expect_close(norm.statistics.mean, expected.mean, tolerance, "mean");
      expect_close(norm.statistics.rstd, expected.rstd, tolerance, "rstd");
      const NormGradients grads = layer_norm_backward(g, x, gamma, norm.statistics);
      expect_close(grads.dx, expected.dx, tolerance, "dx");
      expect_close(grads.dgamma, expected.dgamma, tolerance, "dgamma");
      expect_close(grads.dbeta, expected.dbeta, tolerance, "dbeta");
      const Tensor residual = strided(shape, dtype, ++seed);
      Values both = expected.dx;
      const auto more = residual.to_vector<double>();
      for (size_t i = 0; i < both.size(); ++i) both[i] += more[i];
      expect_close(layer_norm_backward(g, x, gamma, norm.statistics, residual).dx, both, tolerance, "dx + r");
    }
  }
}

TEST(LayerNorm, NoScaleAndShiftMeansOneAndZero) {
  const Tensor x = values({5, 7}, DType::f64, 3);
  const Tensor ones = Tensor::full({7}, 1, DType::f64);
  const Tensor zeros = Tensor::zeros({7}, DType::f64);
  expect_close(layer_norm(x, {}, {}).y, layer_norm(x, ones, zeros).y.to_vector<double>(), 0, "y");
}

TEST(LayerNorm, LargeMeansCancelWell) {
  // Rows 1000 + {-1, 1}: a variance from sums of squares would be off in the third digit.
  const Tensor x = Tensor::full({2, 64}, 1000);
  for (int64_t i = 0; i < 128; ++i) x.data<float>()[i] += i % 2 == 0 ? 1.0f : -1.0f;
  const auto y = layer_norm(x, {}, {}, 0).y.to_vector<double>();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], i % 2 == 0 ? 1 : -1, 1e-6);
}

TEST(LayerNorm, BytesDoNotDependOnThreads) {
  for (const Shape& shape : {Shape{5000, 64}, Shape{999, 257}, Shape{40000, 64}}) {
    const Tensor x = values(shape, DType::f32, 1);
    const Tensor g = values(shape, DType::f32, 2);
    const Tensor gamma = values({shape[-1]}, DType::f32, 3);
    expect_same_bytes([&] {
      const NormResult norm = layer_norm(x, gamma, {});
      const NormGradients grads = layer_norm_backward(g, x, gamma, norm.statistics, x);
      return std::vector<Tensor>{norm.y,   norm.statistics.mean, norm.statistics.rstd,
                                 grads.dx, grads.dgamma,         grads.dbeta};
    });
  }
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_THROW(layer_norm(x, Tensor::zeros({2}), {}), Error);
  EXPECT_THROW(layer_norm(x, {}, Tensor::zeros({3}, DType::f64)), Error);
  EXPECT_THROW(layer_norm(Tensor::zeros({2, 3}, DType::i64), {}, {}), Error);
  EXPECT_THROW(layer_norm(Tensor::scalar(1), {}, {}), Error);
  EXPECT_THROW(layer_norm_backward(x, x, {}, layer_norm(x, {}, {}).statistics, Tensor::zeros({3, 2})), Error);
  EXPECT_THROW(layer_norm_backward(Tensor::zeros({3, 2}), x, {}, {Tensor::zeros({2}), Tensor::zeros({2})}), Error);
  EXPECT_THROW(layer_norm_backward(x, x, {}, {Tensor::zeros({3}), Tensor::zeros({2})}), Error);
}

TEST(BatchNorm, EqualsPlainLoops) {
  uint64_t seed = 100;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape :
         {Shape{2, 3}, Shape{5, 1}, Shape{1000, 33}, Shape{64, 100}, Shape{30000, 2}, Shape{3, 0}}) {
      const auto [n, f] = std::pair{static_cast<size_t>(shape[0]), static_cast<size_t>(shape[1])};
      const Tensor x = strided(shape, dtype, ++seed);
      const Tensor g = strided(shape, dtype, ++seed);
      const Tensor gamma = values({shape[1]}, dtype, ++seed);
      const Tensor beta = values({shape[1]}, dtype, ++seed);
      const ColumnMoments running{Tensor::full({shape[1]}, 0.5, dtype), Tensor::full({shape[1]}, 2, dtype)};
      const auto xs = x.to_vector<double>();
      const auto gs = g.to_vector<double>();
      Values y(n * f), dx(n * f), mean(f), variance(f), dgamma(f), dbeta(f), moved_mean(f), moved_variance(f);
      for (size_t j = 0; j < f; ++j) {
        for (size_t i = 0; i < n; ++i) mean[j] += xs[i * f + j] / static_cast<double>(n);
        for (size_t i = 0; i < n; ++i) variance[j] += std::pow(xs[i * f + j] - mean[j], 2) / static_cast<double>(n);
        const double rstd = 1 / std::sqrt(variance[j] + 1e-3);
        const double scale = gamma.to_vector<double>()[j];
        for (size_t i = 0; i < n; ++i) {
          const double xhat = (xs[i * f + j] - mean[j]) * rstd;
          y[i * f + j] = xhat * scale + beta.to_vector<double>()[j];
          dgamma[j] += gs[i * f + j] * xhat;
          dbeta[j] += gs[i * f + j];
        }
        for (size_t i = 0; i < n; ++i) {
          const double xhat = (xs[i * f + j] - mean[j]) * rstd;
          dx[i * f + j] = scale * rstd * (gs[i * f + j] - (dbeta[j] + xhat * dgamma[j]) / static_cast<double>(n));
        }
        moved_mean[j] = 0.75 * 0.5 + 0.25 * mean[j];
        moved_variance[j] = 0.75 * 2 + 0.25 * variance[j] * static_cast<double>(n) / static_cast<double>(n - 1);
      }
      const double tolerance = 20 * tolerance_of(dtype);
      const NormResult norm = batch_norm(x, gamma, beta, running, 0.25, 1e-3);
      expect_close(norm.y, y, tolerance, "y");
      expect_close(norm.statistics.mean, mean, tolerance, "mean");
      expect_close(running.mean, moved_mean, tolerance, "running mean");
      expect_close(running.variance, moved_variance, tolerance, "running variance");
      const NormGradients grads = batch_norm_backward(g, x, gamma, norm.statistics);
      expect_close(grads.dx, dx, tolerance, "dx");
      expect_close(grads.dgamma, dgamma, 10 * tolerance, "dgamma");
      expect_close(grads.dbeta, dbeta, 10 * tolerance, "dbeta");
    }
  }
}

TEST(BatchNorm, BytesDoNotDependOnThreads) {
  const Tensor x = values({20000, 40}, DType::f32, 1);
  const Tensor g = values({20000, 40}, DType::f32, 2);
  expect_same_bytes([&] {
    const NormResult norm = batch_norm(x, {}, {}, {});
    const NormGradients grads = batch_norm_backward(g, x, {}, norm.statistics);
    return std::vector<Tensor>{norm.y, norm.statistics.mean, norm.statistics.rstd, grads.dx, grads.dgamma, grads.dbeta};
  });
}

TEST(BatchNorm, RefusesWhatDoesNotFit) {
  EXPECT_THROW(batch_norm(Tensor::zeros({1, 3}), {}, {}, {}), Error);
  EXPECT_THROW(batch_norm(Tensor::zeros({2, 3, 4}), {}, {}, {}), Error);
  EXPECT_THROW(batch_norm(Tensor::zeros({2, 3}), Tensor::zeros({2}), {}, {}), Error);
  EXPECT_THROW(batch_norm(Tensor::zeros({2, 3}), {}, {}, {Tensor::zeros({2}), {}}), Error);
}

}  // namespace
}  // namespace bochner
