// Reductions of Variables; contracts are in engine/ops/reduce.h and engine/ops/softmax.h.
#pragma once

#include "autograd/variable.h"

namespace bochner {

Variable sum(const Variable& x, const Dims& axes = {}, bool keep = false);
Variable mean(const Variable& x, const Dims& axes = {}, bool keep = false);
/// Equal maxima share the gradient.
Variable amax(const Variable& x, const Dims& axes = {}, bool keep = false);
Variable amin(const Variable& x, const Dims& axes = {}, bool keep = false);
Variable softmax(const Variable& x, int axis = -1);
/// x - logsumexp(x) = (x - m) - logsumexp(x - m) with m = max x, so that large numbers lose nothing
Variable log_softmax(const Variable& x, int axis = -1);
Variable logsumexp(const Variable& x, int axis = -1, bool keep = false);

}  // namespace bochner
