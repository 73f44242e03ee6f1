// Losses with hand-written backwards; equations are in engine/ops/cross_entropy.h. Each returns a scalar.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/cross_entropy.h"

namespace bochner {

/// The mean of -ln softmax(logits)_label over the rows that count:  logits (..., classes), labels i64 or i32 (...).
Variable cross_entropy(const Variable& logits, const Tensor& labels, const CrossEntropyOptions& options = {});
/// Mean over all elements of -t ln sigmoid(x) - (1 - t) ln(1 - sigmoid(x)); targets are constants in [0, 1].
Variable binary_cross_entropy(const Variable& logits, const Tensor& targets);
/// Mean over all elements of (x - t)^2.
Variable mean_squared_error(const Variable& x, const Variable& targets);

/// The same in plain ops.
Variable cross_entropy_composed(const Variable& logits, const Tensor& labels, const CrossEntropyOptions& options = {});
Variable binary_cross_entropy_composed(const Variable& logits, const Tensor& targets);
Variable mean_squared_error_composed(const Variable& x, const Variable& targets);

}  // namespace bochner
