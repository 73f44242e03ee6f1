#include "autograd/fused/dropout.h"

#include "autograd/tape.h"
#include "engine/ops/dropout.h"

namespace bochner {

// y = m x:  dx = m g
Variable dropout_at(const Variable& x, const Dropout& drop) {
  return record("dropout", dropout(x.value(), drop), {&x},
                [drop](const Variable& g) { return Gradients{dropout_at(g, drop)}; });
}

Variable dropout(const Variable& x, double p, Generator& generator) {
  const Dropout drop = Dropout::draw(p, x.size(), generator);
  return drop.active() ? dropout_at(x, drop) : x;
}

}  // namespace bochner
