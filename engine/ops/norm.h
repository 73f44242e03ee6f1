// Normalisation: LayerNorm over the last axis (Ba, Kiros, Hinton, 2016) and BatchNorm over the first
// (Ioffe, Szegedy, ICML 2015), with hand-written backwards. f32 and f64; LayerNorm also bf16, with gamma, beta,
// statistics and their gradients in f32.
//
// Neither keeps its output or the normalised x: backward recomputes them from x, mean and rstd.
#pragma once

#include "engine/ops/dropout.h"
#include "engine/tensor.h"

namespace bochner {

/// For each row of x in LayerNorm, for each column in BatchNorm.
struct NormStatistics {
  Tensor mean;
  Tensor rstd;  ///< 1 / sqrt(variance + eps)
};

struct NormResult {
  Tensor y;                   ///< as x
  NormStatistics statistics;  ///< (...) of x (..., d) in LayerNorm, (f) of x (n, f) in BatchNorm
};

/// y = (x - mean) rstd gamma + beta,  mean = sum x / d,  rstd = (sum (x - mean)^2 / d + eps)^(-1/2)
/// x (..., d), gamma (d), beta (d); gamma and beta may be undefined: 1 and 0.
NormResult layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps = 1e-5);

struct NormGradients {
  Tensor dx;             ///< as x
  Tensor dgamma, dbeta;  ///< (d) or (f)
};

/// With xhat = (x - mean) rstd and h = g gamma:
///   dx = rstd (h - sum h / d - xhat sum(h xhat) / d) [+ residual],  dgamma = sum g xhat,  dbeta = sum g
/// the last two summed over rows, in fixed order. `residual` (..., d), if defined, is another gradient of x.
NormGradients layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma,
                                  const NormStatistics& statistics, const Tensor& residual = {});

struct ColumnMoments {
  Tensor mean, variance;  ///< (f)
};

/// BatchNorm1d in training: y = (x - mean) rstd gamma + beta with mean and (biased) variance over the first axis of x
/// (n, f). The defined tensors of `running` are updated in place: r += momentum (new - r), with the unbiased variance,
/// as in PyTorch. n = 1 has no variance and is refused.
NormResult batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const ColumnMoments& running,
                      double momentum = 0.1, double eps = 1e-5);
/// With xhat = (x - mean) rstd:  dgamma = sum g xhat,  dbeta = sum g,
///   dx = gamma rstd (g - dbeta / n - xhat dgamma / n)
NormGradients batch_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma,
                                  const NormStatistics& statistics);

/// For the kernels of both backends: both are defined.
struct NormWeights {
  Tensor gamma, beta;  ///< (d) or (f)
};

}  // namespace bochner
