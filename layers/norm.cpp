#include "layers/norm.h"

#include "autograd/fused/norm.h"

namespace bochner {

LayerNorm::LayerNorm(Slot slot, int64_t dim, double eps)
    : Module(std::move(slot)),
      weight(parameter("weight", Tensor::full({dim}, 1))),
      bias(parameter("bias", Tensor::zeros({dim}))),
      eps_(eps) {}

Variable LayerNorm::forward(const Variable& x) const {
  const Scope scope(name());
  return layer_norm(x, weight, bias, eps_);
}

}  // namespace bochner
