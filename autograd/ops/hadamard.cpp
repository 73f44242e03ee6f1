#include "autograd/ops/hadamard.h"

#include "autograd/ops/unary.h"
#include "engine/ops/hadamard.h"

namespace bochner {

// y = H x:  dx = H^T g = H g
Variable hadamard(const Variable& x) {
  return record("hadamard", hadamard(x.value()), {&x}, [](const Variable& g) { return Gradients{hadamard(g)}; });
}

}  // namespace bochner
