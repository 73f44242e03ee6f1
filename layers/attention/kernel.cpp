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
  spec.scale = std::pow(static_cast<double>(Q.size(-1)), -inputs_.power);
  const Tensor keys = inputs_.sees_padding || inputs_.zeros_padding ? Tensor() : mask.keys;
  const Variable values = inputs_.zeros_padding ? without_padding(V, mask.keys) : V;
  Variable Omega;    // (1 or H, M, D), or FastFood's diagonals
  double draws = 1;  // phi is due 1 / sqrt(draws), which only a division by the sum of weights cancels
  if (distribution_ != nullptr) {
    Frequencies drawn = distribution_->frequencies(context);
    Omega = drawn.Omega;
    spec.permutation = drawn.permutation;
    spec.frequencies = drawn.count;
    const int64_t rows = spec.permutation.defined() ? drawn.count : Omega.size(1);
    draws = static_cast<double>(spec.map.kind == FeatureMap::Kind::hyperbolic ? 2 * rows : rows);
    if (spec.map.constant != 0) draws = spec.map.constant * spec.map.constant;  // as released
    if (spec.permutation.defined() && !Q.device().is_cpu()) {
      Omega = composed::fastfood_matrix(spec, Omega, Q.size(-1));
      spec.permutation = Tensor();
    }
  }
  const Variable O = streaming_ ? kernel_attention(spec, Q, K, values, Omega, keys)
                                : composed::kernel_attention(spec, Q, K, values, Omega, keys);
  return spec.renormalise || !Omega.defined() ? O : O * (1 / draws);
}

Tensor KernelAttention::frequencies(bool training) {
  if (distribution_ == nullptr) return {};
  const NoTape constant;
  const Frequencies current = distribution_->current(training);
  if (!current.permutation.defined()) return current.Omega.value().contiguous();
  KernelAttentionSpec spec;
  spec.permutation = current.permutation;
  spec.frequencies = current.count;
  return composed::fastfood_matrix(spec, current.Omega, current.permutation.size(1)).value().contiguous();
}

}  // namespace bochner
