// Dropout whose mask is drawn again in backward instead of being kept; the equation is in engine/ops/dropout.h.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/dropout.h"

namespace bochner {

/// y = x * dropout_mask; takes half a word of the generator for each element. p = 0 returns x and draws nothing.
Variable dropout(const Variable& x, double p, Generator& generator);
/// The same with a given mask.
Variable dropout_at(const Variable& x, const Dropout& drop);

}  // namespace bochner
