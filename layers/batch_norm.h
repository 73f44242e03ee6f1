// Batch normalisation as a module (Ioffe & Szegedy, ICML 2015); equations in engine/ops/norm.h. The definition, the
// defaults and the names in checkpoints are those of PyTorch's BatchNorm1d.
#pragma once

#include <optional>

#include "layers/module.h"

namespace bochner {

struct BatchNormOptions {
  double eps = 1e-5;
  /// The weight of the newest batch in the running statistics; if unset, they are the plain mean over all batches seen.
  std::optional<double> momentum = 0.1;
  bool affine = true;  ///< scale by weight and shift by bias
};

/// y = (x - mean) / sqrt(variance + eps) * weight + bias for each feature. In training, mean and variance are those of
/// the batch, and update the running statistics (with the unbiased variance). Otherwise they are the running
/// statistics, so that no row depends on another.
class BatchNorm1d : public Module {
 public:
  BatchNorm1d(Slot slot, int64_t features, BatchNormOptions options = {});

  /// (n, features), or (n, features, length), which counts as n * length rows; at least two rows in training.
  Variable forward(const Variable& x, const Context& context) { return forward(x, context.training); }
  Variable forward(const Variable& x, bool training);

 private:
  Variable rows(const Variable& x, bool training);

  BatchNormOptions options_;
  int64_t features_;
  Parameter* weight_;         ///< (features), ones at first; null if not affine
  Parameter* bias_;           ///< (features), zeros at first
  Tensor& running_mean_;      ///< (features), zeros at first
  Tensor& running_variance_;  ///< (features), ones at first; `running_var` in checkpoints
  Tensor& batches_;           ///< i64 (), batches seen in training; `num_batches_tracked` in checkpoints
};

}  // namespace bochner
