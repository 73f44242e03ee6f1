#include "autograd/ops/rotary.h"

#include "autograd/tape.h"
#include "engine/ops/rotary.h"

namespace bochner {

// y = R x:  dx = R^T g, the rotation back
Variable rotary(const Variable& x, const Tensor& cosines, const Tensor& sines, int64_t turned, bool back) {
  return record("rotary", rotary(x.value(), cosines, sines, turned, back), {&x},
                [=](const Variable& g) { return Gradients{rotary(g, cosines, sines, turned, !back)}; });
}

}  // namespace bochner
