// Initial values of parameters. A weight has the shape (outputs, inputs), that is, (fan_out, fan_in).
#pragma once

#include "engine/random.h"

namespace bochner::init {

/// U(-a, a), a = sqrt(6 / (fan_in + fan_out))  (Glorot & Bengio, 2010). For a rank above 2, as in PyTorch, the sizes
/// after the second axis multiply both fans.
Tensor xavier_uniform(const Shape& shape, Generator& generator);
/// U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)): PyTorch's default for Linear, weights and bias.
Tensor fan_in_uniform(const Shape& shape, int64_t fan_in, Generator& generator);
/// N(0, deviation^2)
Tensor gaussian(const Shape& shape, double deviation, Generator& generator);

}  // namespace bochner::init
