// Dropout whose mask is drawn again in backward instead of being kept; equation in engine/ops/dropout.h.
#pragma once

#include "autograd/variable.h"
#include "engine/random.h"

namespace bochner {

/// y = mask x / (1 - p); advances the generator by one word for each element. p = 0 returns x and draws nothing.
Variable dropout(const Variable& x, double p, Generator& generator);
/// The same with the mask at a given place.
Variable dropout_at(const Variable& x, double p, const Generator& place);

}  // namespace bochner
