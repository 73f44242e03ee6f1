// Dropout whose mask is drawn again in backward instead of being kept; the equation is in engine/ops/dropout.h.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/dropout.h"

namespace bochner {

/// y = x * dropout_mask; takes half a word of the generator for each element. p = 0 returns x and draws nothing.
Variable dropout(const Variable& x, double p, Generator& generator);
/// The same with a given mask.
Variable dropout_at(const Variable& x, const Dropout& drop);

/// y = residual + dropout(x), in one pass; x and residual have the same shape.
Variable add_dropout(const Variable& x, const Variable& residual, double p, Generator& generator);
Variable add_dropout_at(const Variable& x, const Variable& residual, const Dropout& drop);

}  // namespace bochner
