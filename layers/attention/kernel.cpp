#include "layers/attention/kernel.h"

#include <cmath>

#include "autograd/fused/kernel_attention.h"
#include "autograd/ops/binary.h"
#include "layers/attention/blocks.h"

namespace bochner {

KernelAttention::KernelAttention(Slot slot, const KernelAttentionSpec& spec, const Inputs& inputs,
                                 const MakeDistribution& distribution, bool streaming)
    : Mechanism(std::move(slot)),
      spec_(spec),
      inputs_(inputs),
      distribution_(distribution ? distribution(sub("frequencies")) : nullptr),
      streaming_(streaming) {}

Variable KernelAttention::forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                                  Context& context) {
  const Scope scope(name());
  KernelAttentionSpec spec = spec_;
  spec.causal = mask.causal;
  spec.slice = context.slice;
  spec.scale = std::pow(static_cast<double>(Q.size(-1)), -inputs_.power);
  const Tensor keys = inputs_.sees_padding || inputs_.zeros_padding ? Tensor() : mask.keys;
  const Tensor zeroed = inputs_.zeros_padding ? mask.keys : Tensor();
  const Variable k = without_padding(K, zeroed);
  const Variable v = without_padding(V, zeroed);
  VariableFrequencies Omega;
  double draws = 1;  // phi lacks 1 / sqrt(draws), which a division by the sum of weights would cancel
  if (distribution_ != nullptr) {
    Omega = distribution_->frequencies(context);
    draws = inputs_.draws > 0 ? inputs_.draws : static_cast<double>(spec.map.draws(Omega.count(Q.size(-1))));
    if (!Q.device().is_cpu()) Omega = composed::dense(Omega, Q.size(-1));  // CUDA kernels do not support FastFood
  }
  const Variable O = streaming_ ? kernel_attention(spec, Q, k, v, Omega, keys)
                                : composed::kernel_attention(spec, Q, k, v, Omega, keys);
  return spec.renormalise || !Omega.defined() ? O : O * (1 / draws);
}

Tensor KernelAttention::frequencies(bool training) {
  if (distribution_ == nullptr) return {};
  const NoTape constant;
  const VariableFrequencies current = distribution_->current(training);
  return composed::dense(current, current.values.size(-1)).value().contiguous();
}

}  // namespace bochner
