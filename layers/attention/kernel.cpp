#include "layers/attention/kernel.h"

#include <cmath>

#include "autograd/ops/unary.h"

namespace bochner {

KernelAttention::KernelAttention(Slot slot, const KernelForm& form, const MakeDistribution& distribution,
                                 bool streaming)
    : Mechanism(std::move(slot)),
      form_(form),
      distribution_(distribution ? distribution(sub("frequencies")) : nullptr),
      streaming_(streaming) {}

Variable KernelAttention::forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                                  Context& context) {
  const Scope scope(name());
  const double scale = form_.scaled ? std::pow(static_cast<double>(Q.size(-1)), -0.25) : 1;
  const Variable Omega = distribution_ != nullptr ? distribution_->frequencies(context) : Variable();  // (1 or H, M, D)
  const Variable phi_q = composed::feature_map(form_.map, Q * scale, Omega, false, mask);
  const Variable phi_k = composed::feature_map(form_.map, K * scale, Omega, true, mask);
  return composed::kernel_attention(phi_q, phi_k, V, mask, form_.attention);
}

}  // namespace bochner
