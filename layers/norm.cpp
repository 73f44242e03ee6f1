#include "layers/norm.h"

#include "autograd/fused/norm.h"

namespace bochner {

LayerNormLayer::LayerNormLayer(Slot slot, int64_t dim, double eps)
    : Module(std::move(slot)),
      eps_(eps),
      weight_(parameter("weight", Tensor::full({dim}, 1))),
      bias_(parameter("bias", Tensor::zeros({dim}))) {}

Variable LayerNormLayer::forward(const Variable& x) const {
  const Scope scope(name());
  return layer_norm(x, weight_, bias_, eps_);
}

}  // namespace bochner
