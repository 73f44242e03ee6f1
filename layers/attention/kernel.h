// Kernel attention: a spectral distribution times a feature map. Linear in the length:
//   O_i = phi(q_i)^T S / (phi(q_i)^T z),  S = sum_j phi(k_j) v_j^T,  z = sum_j phi(k_j)
#pragma once

#include <functional>

#include "engine/ops/kernel_attention.h"
#include "layers/attention/mechanism.h"
#include "layers/spectral/distribution.h"

namespace bochner {

class KernelAttention : public Mechanism {
 public:
  /// `distribution` builds the frequencies as a child of this module; empty: the map acts on x itself.
  using MakeDistribution = std::function<std::unique_ptr<SpectralDistribution>(Slot)>;
  /// `scaled`: x D^(-1/4) before the map, so that q . k becomes q . k / sqrt(D).
  KernelAttention(Slot slot, const KernelAttentionSpec& spec, bool scaled, const MakeDistribution& distribution,
                  bool streaming);

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override;
  Tensor frequencies() override;

 private:
  KernelAttentionSpec spec_;
  bool scaled_;
  std::unique_ptr<SpectralDistribution> distribution_;
  bool streaming_;
};

}  // namespace bochner
