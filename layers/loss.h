// Losses. Each is a small value that holds its options and is called like a function:
//
//   const CrossEntropyLoss loss{.smoothing = 0.1};
//   tape.backward(loss(model.forward(ids, mask, context), labels));
//
// Definitions and defaults are PyTorch's, except that no label is ignored unless it is named, and that a mean over
// nothing is 0. A mean uses the fused op of autograd/fused if there is one.
#pragma once

#include <optional>

#include "autograd/variable.h"

namespace bochner {

enum class Reduction : unsigned char {
  mean,  ///< over all terms that count
  sum,
  none  ///< one term for each row or element
};

/// -sum_j t_j ln softmax(x)_j with t = (1 - s) onehot(label) + s / classes:
/// logits (..., classes), labels i64 (...) -> () or (...)
struct CrossEntropyLoss {
  double smoothing = 0;                ///< s (Szegedy et al., 2016), 0 <= s <= 1
  std::optional<int64_t> ignore = {};  ///< rows with this label do not count, and give 0 without reduction
  Reduction reduction = Reduction::mean;
  Variable operator()(const Variable& logits, const Tensor& labels) const;
};

/// -(w t ln sigmoid(x) + (1 - t) ln(1 - sigmoid(x))), from logits; targets in [0, 1] of the same shape.
struct BinaryCrossEntropyLoss {
  double positive_weight = 1;  ///< w, for data with few positives
  Reduction reduction = Reduction::mean;
  Variable operator()(const Variable& logits, const Tensor& targets) const;
};

/// (x - t)^2; targets have the same shape and get a gradient, too.
struct MeanSquaredErrorLoss {
  Reduction reduction = Reduction::mean;
  Variable operator()(const Variable& x, const Variable& targets) const;
};

/// |x - t|
struct MeanAbsoluteErrorLoss {
  Reduction reduction = Reduction::mean;
  Variable operator()(const Variable& x, const Variable& targets) const;
};

/// (x - t)^2 / 2 where |x - t| <= delta, else delta (|x - t| - delta / 2)  (Huber, 1964); delta > 0.
struct HuberLoss {
  double delta = 1;
  Reduction reduction = Reduction::mean;
  Variable operator()(const Variable& x, const Variable& targets) const;
};

/// sum_j p_j (ln p_j - ln q_j) over the last axis for given p and ln q, the output of log_softmax: a distance between
/// distributions (distillation). The mean is over rows; for a matrix, PyTorch's `batchmean`. p = 0 adds nothing,
/// whatever q is.
struct KullbackLeiblerLoss {
  Reduction reduction = Reduction::mean;
  Variable operator()(const Variable& log_q, const Tensor& p) const;
};

}  // namespace bochner
