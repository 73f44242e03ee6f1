// Losses on logits.
#pragma once

#include "autograd/variable.h"

namespace bochner {

/// Mean over the batch of -ln softmax(logits)_label:  logits (batch, classes), labels i64 (batch) -> one number.
Variable cross_entropy(const Variable& logits, const Tensor& labels);

}  // namespace bochner
