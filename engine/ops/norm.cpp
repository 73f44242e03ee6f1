#include "engine/ops/norm.h"

#include "engine/bf16.h"
#include "engine/kernel.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"

namespace bochner {

// All contiguous, of one floating type, but if it is bf16, statistics, gamma, beta and their gradients are f32. x is
// (rows, columns); y, g, dx, residual have as many elements; mean, rstd (rows); gamma, beta, dgamma, dbeta (columns).

BOCHNER_KERNEL(kLayerNorm, "layer_norm", layer_norm, const Tensor& x, const NormWeights& weights, double eps,
               const NormResult& result);
// `residual` may be undefined.
BOCHNER_KERNEL(kLayerNormBackward, "layer_norm_backward", layer_norm_backward, const Tensor& g, const Tensor& x,
               const Tensor& gamma, const NormStatistics& statistics, const Tensor& residual,
               const NormGradients& result);
// mean and (biased) variance of each column.
BOCHNER_KERNEL(kColumnMoments, "batch_norm", column_moments, const Tensor& x, const ColumnMoments& result);
// y = (x - mean) rstd gamma + beta; mean, rstd, gamma, beta (columns).
BOCHNER_KERNEL(kBatchNormApply, "batch_norm", batch_norm_apply, const Tensor& x, const NormWeights& weights,
               const NormStatistics& statistics, const Tensor& y);
BOCHNER_KERNEL(kBatchNormBackward, "batch_norm_backward", batch_norm_backward, const Tensor& g, const Tensor& x,
               const Tensor& gamma, const NormStatistics& statistics, const NormGradients& result);

namespace {

/// x as (rows, columns) over its last axis, contiguous.
Tensor rows_of(const char* op, const Tensor& x) {
  if (x.rank() == 0) fail("{}: needs at least one axis, got {}", op, x.str());
  require_stored(x.dtype(), op);
  const int64_t columns = x.size(-1);
  return x.contiguous().view({columns == 0 ? 0 : x.size() / columns, columns});
}

/// gamma or beta, contiguous and where x is; if undefined, filled with `value`.
Tensor scale_of(const char* op, const char* name, const Tensor& given, double value, const Tensor& x) {
  const DType dtype = compute_dtype(x.dtype());
  if (!given.defined()) return Tensor::full({x.size(-1)}, value, dtype, x.device());
  require_on(x.device(), op, given);
  if (!(given.shape() == Shape{x.size(-1)}) || given.dtype() != dtype) {
    fail("{}: {} {} does not fit x {}; it must be {} ({})", op, name, given.str(), x.str(), name_of(dtype), x.size(-1));
  }
  return given.contiguous();
}

NormWeights weights_of(const char* op, const Tensor& gamma, const Tensor& beta, const Tensor& x) {
  return {scale_of(op, "gamma", gamma, 1, x), scale_of(op, "beta", beta, 0, x)};
}

void check_same(const char* op, const char* name, const Tensor& given, const Tensor& x) {
  if (!(given.shape() == x.shape()) || given.dtype() != x.dtype())
    fail("{}: {} {} does not fit x {}", op, name, given.str(), x.str());
}

/// mean or rstd, contiguous; it must be of `shape` and on `device`.
Tensor statistic_of(const char* op, const char* name, const Tensor& given, const Shape& shape, Device device) {
  require_on(device, op, given);
  if (!(given.shape() == shape)) fail("{}: {} {} needs shape {}", op, name, given.str(), shape.str());
  return given.contiguous();
}

NormStatistics statistics_of(const char* op, const NormStatistics& given, const Shape& shape, Device device) {
  return {statistic_of(op, "mean", given.mean, shape, device), statistic_of(op, "rstd", given.rstd, shape, device)};
}

/// One number each for each row, in the type that x is computed in.
NormStatistics row_statistics(const Tensor& x) {
  const auto zeros = [&] { return Tensor::zeros(x.shape().without_last(), compute_dtype(x.dtype()), x.device()); };
  return {zeros(), zeros()};
}

}  // namespace

NormResult layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps) {
  const Tensor rows = rows_of("layer_norm", x);
  const NormResult result{Tensor::empty_like(x), row_statistics(x)};
  kLayerNorm(x.device(), rows, weights_of("layer_norm", gamma, beta, x), eps, result);
  return result;
}

NormGradients layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma,
                                  const NormStatistics& statistics, const Tensor& residual) {
  const Tensor rows = rows_of("layer_norm", x);
  check_same("layer_norm", "gradient", g, x);
  const NormStatistics given = statistics_of("layer_norm", statistics, x.shape().without_last(), x.device());
  if (residual.defined()) check_same("layer_norm", "residual gradient", residual, x);
  const DType dtype = compute_dtype(x.dtype());
  const NormGradients result{Tensor::empty_like(x), Tensor::zeros({x.size(-1)}, dtype, x.device()),
                             Tensor::zeros({x.size(-1)}, dtype, x.device())};
  kLayerNormBackward(x.device(), g.contiguous(), rows, scale_of("layer_norm", "gamma", gamma, 1, x), given,
                     residual.contiguous(), result);
  return result;
}

namespace {

Tensor batch_rows(const Tensor& x) {
  if (x.rank() != 2) fail("batch_norm: needs (n, features), got {}", x.str());
  require_floating(x.dtype(), "batch_norm");
  return rows_of("batch_norm", x);
}

}  // namespace

NormResult batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const ColumnMoments& running,
                      double momentum, double eps) {
  const Tensor rows = batch_rows(x);
  if (x.size(0) < 2) fail("batch_norm: {} has no variance; in training it needs at least two rows", x.str());
  const auto n = static_cast<double>(x.size(0));
  const ColumnMoments found{Tensor::empty({x.size(1)}, x.dtype(), x.device()),
                            Tensor::empty({x.size(1)}, x.dtype(), x.device())};
  if (x.size(1) > 0) kColumnMoments(x.device(), rows, found);
  // All is checked before anything moves.
  const auto weights = weights_of("batch_norm", gamma, beta, x);
  if (running.mean.defined()) check_same("batch_norm", "running mean", running.mean, found.mean);
  if (running.variance.defined()) check_same("batch_norm", "running variance", running.variance, found.variance);
  const auto move = [&](const Tensor& moved, const Tensor& observed) {
    if (moved.defined()) moved.copy_(moved * (1 - momentum) + observed * momentum);
  };
  move(running.mean, found.mean);
  move(running.variance, found.variance * (n / (n - 1)));
  const NormResult result{Tensor::empty_like(x), {found.mean, reciprocal(sqrt(found.variance + eps))}};
  kBatchNormApply(x.device(), rows, weights, result.statistics, result.y);
  return result;
}

NormGradients batch_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma,
                                  const NormStatistics& statistics) {
  const Tensor rows = batch_rows(x);
  check_same("batch_norm", "gradient", g, x);
  const NormStatistics given = statistics_of("batch_norm", statistics, {x.size(1)}, x.device());
  const NormGradients result{Tensor::empty_like(x), Tensor::zeros({x.size(1)}, x.dtype(), x.device()),
                             Tensor::zeros({x.size(1)}, x.dtype(), x.device())};
  kBatchNormBackward(x.device(), g.contiguous(), rows, scale_of("batch_norm", "gamma", gamma, 1, x), given, result);
  return result;
}

}  // namespace bochner
