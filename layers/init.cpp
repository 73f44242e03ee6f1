#include "layers/init.h"

#include <cmath>

namespace bochner::init {

Tensor xavier_uniform(const Shape& shape, Generator& generator) {
  if (shape.rank() < 2) fail("xavier_uniform: {} needs at least two axes", shape.str());
  const int64_t receptive = shape.size() / std::max<int64_t>(1, shape[0] * shape[1]);
  const double bound = std::sqrt(6.0 / static_cast<double>((shape[0] + shape[1]) * receptive));
  return uniform(shape, generator, -bound, bound);
}

Tensor fan_in_uniform(const Shape& shape, int64_t fan_in, Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return uniform(shape, generator, -bound, bound);
}

Tensor gaussian(const Shape& shape, double deviation, Generator& generator) {
  return normal(shape, generator, 0, deviation);
}

}  // namespace bochner::init
