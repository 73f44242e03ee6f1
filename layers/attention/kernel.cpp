#include "layers/attention/kernel.h"

#include <cmath>

#include "autograd/fused/kernel_attention.h"

namespace bochner {

KernelAttention::KernelAttention(Slot slot, const KernelAttentionSpec& spec, bool scaled,
                                 const MakeDistribution& distribution, bool streaming)
    : Mechanism(std::move(slot)),
      spec_(spec),
      scaled_(scaled),
      distribution_(distribution ? distribution(sub("frequencies")) : nullptr),
      streaming_(streaming) {}

Variable KernelAttention::forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                                  Context& context) {
  const Scope scope(name());
  KernelAttentionSpec spec = spec_;
  spec.causal = mask.causal;
  spec.scale = scaled_ ? std::pow(static_cast<double>(Q.size(-1)), -0.25) : 1;
  const Variable Omega = distribution_ != nullptr ? distribution_->frequencies(context) : Variable();  // (1 or H, M, D)
  return streaming_ ? kernel_attention(spec, Q, K, V, Omega, mask.keys)
                    : composed::kernel_attention(spec, Q, K, V, Omega, mask.keys);
}

}  // namespace bochner
