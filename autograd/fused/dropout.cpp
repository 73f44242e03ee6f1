#include "autograd/fused/dropout.h"

#include "autograd/ops/binary.h"
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

// y = r + m x:  dr = g,  dx = m g
Variable add_dropout_at(const Variable& x, const Variable& residual, const Dropout& drop) {
  return record("add_dropout", add_dropout(x.value(), residual.value(), drop), {&x, &residual},
                [drop](const Variable& g) {
                  return Gradients{dropout_at(g, drop), g};
                });
}

Variable add_dropout(const Variable& x, const Variable& residual, double p, Generator& generator) {
  return add_dropout_at(x, residual, Dropout::draw(p, x.size(), generator));
}

}  // namespace bochner
