#include "layers/dropout.h"

#include "autograd/fused/dropout.h"

namespace bochner {

DropoutLayer::DropoutLayer(Slot slot, double p) : Module(std::move(slot)), p_(p) {
  if (!(p >= 0 && p <= 1)) fail("dropout: probability {} lies outside [0, 1]", p);
}

Variable DropoutLayer::forward(const Variable& x, Context& context) const {
  const Scope scope(name());
  return context.training ? dropout(x, p_, context.generator) : x;
}

}  // namespace bochner
