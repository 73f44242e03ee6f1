#include "engine/ops/norm.h"

#include "engine/bf16.h"
#include "engine/kernel.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"

namespace bochner {

// All contiguous, of one floating type, but if it is bf16, statistics, gamma, beta and their gradients are f32. x, y,
// g, dx, residual, sum (rows, columns); mean, rstd (rows); gamma, beta, dgamma, dbeta (columns). The norm of a sum is
// that of the stored one.

BOCHNER_KERNEL(kLayerNorm, "layer_norm", layer_norm, int64_t rows, int64_t columns, const Tensor& x,
               const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y, const Tensor& mean,
               const Tensor& rstd);
BOCHNER_KERNEL(kLayerNormApply, "layer_norm", layer_norm_apply, int64_t rows, int64_t columns, const Tensor& x,
               const Tensor& gamma, const Tensor& beta, const Tensor& mean, const Tensor& rstd, const Tensor& y);
BOCHNER_KERNEL(kResidualLayerNorm, "layer_norm", residual_layer_norm, int64_t rows, int64_t columns, const Tensor& x,
               const Tensor& residual, const Dropout& drop, const Tensor& gamma, const Tensor& beta, double eps,
               const Tensor& sum, const Tensor& y, const Tensor& mean, const Tensor& rstd);
// `residual` may be undefined.
BOCHNER_KERNEL(kLayerNormBackward, "layer_norm", layer_norm_backward, int64_t rows, int64_t columns, const Tensor& g,
               const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd, const Tensor& residual,
               const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta);
// mean and (biased) variance of each column.
BOCHNER_KERNEL(kColumnMoments, "batch_norm", column_moments, int64_t rows, int64_t columns, const Tensor& x,
               const Tensor& mean, const Tensor& variance);
// y = (x - mean) rstd gamma + beta; mean, rstd, gamma, beta (columns).
BOCHNER_KERNEL(kBatchNormApply, "batch_norm", batch_norm_apply, int64_t rows, int64_t columns, const Tensor& x,
               const Tensor& gamma, const Tensor& beta, const Tensor& mean, const Tensor& rstd, const Tensor& y);
BOCHNER_KERNEL(kBatchNormBackward, "batch_norm", batch_norm_backward, int64_t rows, int64_t columns, const Tensor& g,
               const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd, const Tensor& dx,
               const Tensor& dgamma, const Tensor& dbeta);

namespace {

/// (rows, columns) of x over its last axis.
struct Rows {
  int64_t rows, columns;
};

Rows rows_of(const char* op, const Tensor& x) {
  if (x.rank() == 0) fail("{}: needs at least one axis, got {}", op, x.str());
  visit_stored(x.dtype(), op, [](auto) {});
  const int64_t columns = x.size(-1);
  return {columns == 0 ? 0 : x.size() / columns, columns};
}

/// gamma or beta, contiguous; if undefined, filled with `value`.
Tensor scale_of(const char* op, const char* name, const Tensor& given, double value, const Tensor& x) {
  const DType dtype = compute_dtype(x.dtype());
  if (!given.defined()) return Tensor::full({x.size(-1)}, value, dtype, x.device());
  if (!(given.shape() == Shape{x.size(-1)}) || given.dtype() != dtype) {
    fail("{}: {} {} does not fit x {}; it must be {} ({})", op, name, given.str(), x.str(), name_of(dtype), x.size(-1));
  }
  return given.contiguous();
}

void check_same(const char* op, const char* name, const Tensor& given, const Tensor& x) {
  if (!(given.shape() == x.shape()) || given.dtype() != x.dtype())
    fail("{}: {} {} does not fit x {}", op, name, given.str(), x.str());
}

void check_statistics(const char* op, const Tensor& mean, const Tensor& rstd, const Shape& shape) {
  if (!(mean.shape() == shape) || !(rstd.shape() == shape))
    fail("{}: mean {} and rstd {} need shape {}", op, mean.str(), rstd.str(), shape.str());
}

/// One number for each row, in the type that x is computed in.
Tensor statistics_of(const Tensor& x) {
  return Tensor::zeros(x.shape().without_last(), compute_dtype(x.dtype()), x.device());
}

}  // namespace

LayerNorm layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps) {
  const auto [rows, columns] = rows_of("layer_norm", x);
  const LayerNorm result{Tensor::empty_like(x), statistics_of(x), statistics_of(x)};
  kLayerNorm(x.device(), rows, columns, x.contiguous(), scale_of("layer_norm", "gamma", gamma, 1, x),
             scale_of("layer_norm", "beta", beta, 0, x), eps, result.y, result.mean, result.rstd);
  return result;
}

Tensor layer_norm_apply(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                        const Tensor& rstd) {
  const auto [rows, columns] = rows_of("layer_norm", x);
  check_statistics("layer_norm", mean, rstd, x.shape().without_last());
  const Tensor y = Tensor::empty_like(x);
  kLayerNormApply(x.device(), rows, columns, x.contiguous(), scale_of("layer_norm", "gamma", gamma, 1, x),
                  scale_of("layer_norm", "beta", beta, 0, x), mean.contiguous(), rstd.contiguous(), y);
  return y;
}

ResidualLayerNorm residual_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& gamma, const Tensor& beta,
                                      double eps, const Dropout& drop) {
  const auto [rows, columns] = rows_of("layer_norm", x);
  check_same("layer_norm", "residual", residual, x);
  const ResidualLayerNorm result{Tensor::empty_like(x), Tensor::empty_like(x), statistics_of(x), statistics_of(x)};
  kResidualLayerNorm(x.device(), rows, columns, x.contiguous(), residual.contiguous(), drop,
                     scale_of("layer_norm", "gamma", gamma, 1, x), scale_of("layer_norm", "beta", beta, 0, x), eps,
                     result.sum, result.y, result.mean, result.rstd);
  return result;
}

LayerNormGradients layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                       const Tensor& rstd, const Tensor& residual) {
  const auto [rows, columns] = rows_of("layer_norm", x);
  check_same("layer_norm", "gradient", g, x);
  check_statistics("layer_norm", mean, rstd, x.shape().without_last());
  if (residual.defined()) check_same("layer_norm", "residual gradient", residual, x);
  const DType dtype = compute_dtype(x.dtype());
  const LayerNormGradients result{Tensor::empty_like(x), Tensor::zeros({columns}, dtype, x.device()),
                                  Tensor::zeros({columns}, dtype, x.device())};
  kLayerNormBackward(x.device(), rows, columns, g.contiguous(), x.contiguous(),
                     scale_of("layer_norm", "gamma", gamma, 1, x), mean.contiguous(), rstd.contiguous(),
                     residual.defined() ? residual.contiguous() : residual, result.dx, result.dgamma, result.dbeta);
  return result;
}

namespace {

Rows batch_rows(const Tensor& x) {
  if (x.rank() != 2) fail("batch_norm: needs (n, features), got {}", x.str());
  visit_floating(x.dtype(), "batch_norm", [](auto) {});
  return rows_of("batch_norm", x);
}

}  // namespace

BatchNorm batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& running_mean,
                     const Tensor& running_variance, double momentum, double eps) {
  const auto [rows, columns] = batch_rows(x);
  if (x.size(0) < 2) fail("batch_norm: {} has no variance; in training it needs at least two rows", x.str());
  const Tensor values = x.contiguous();
  const Tensor mean = Tensor::empty({columns}, x.dtype(), x.device());
  const Tensor variance = Tensor::empty({columns}, x.dtype(), x.device());
  if (columns > 0) kColumnMoments(x.device(), rows, columns, values, mean, variance);
  const auto move = [&](const char* name, const Tensor& running, const Tensor& observed) {
    if (!running.defined()) return;
    check_same("batch_norm", name, running, observed);
    running.copy_(running * (1 - momentum) + observed * momentum);
  };
  move("running mean", running_mean, mean);
  move("running variance", running_variance, variance * (static_cast<double>(rows) / static_cast<double>(rows - 1)));
  const BatchNorm result{Tensor::empty_like(x), mean, reciprocal(sqrt(variance + eps))};
  kBatchNormApply(x.device(), rows, columns, values, scale_of("batch_norm", "gamma", gamma, 1, x),
                  scale_of("batch_norm", "beta", beta, 0, x), result.mean, result.rstd, result.y);
  return result;
}

Tensor batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                            const Tensor& variance, double eps) {
  const auto [rows, columns] = batch_rows(x);
  check_statistics("batch_norm", mean, variance, {columns});
  const Tensor y = Tensor::empty_like(x);
  kBatchNormApply(x.device(), rows, columns, x.contiguous(), scale_of("batch_norm", "gamma", gamma, 1, x),
                  scale_of("batch_norm", "beta", beta, 0, x), mean.contiguous(), reciprocal(sqrt(variance + eps)), y);
  return y;
}

LayerNormGradients batch_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                       const Tensor& rstd) {
  const auto [rows, columns] = batch_rows(x);
  check_same("batch_norm", "gradient", g, x);
  check_statistics("batch_norm", mean, rstd, {columns});
  const LayerNormGradients result{Tensor::empty_like(x), Tensor::zeros({columns}, x.dtype(), x.device()),
                                  Tensor::zeros({columns}, x.dtype(), x.device())};
  kBatchNormBackward(x.device(), rows, columns, g.contiguous(), x.contiguous(),
                     scale_of("batch_norm", "gamma", gamma, 1, x), mean.contiguous(), rstd.contiguous(), result.dx,
                     result.dgamma, result.dbeta);
  return result;
}

}  // namespace bochner
