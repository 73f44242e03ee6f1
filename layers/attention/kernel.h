// Kernel attention: a spectral distribution times a feature map. Linear in the length:
//   O_i = phi(q_i)^T S / (phi(q_i)^T z),  S = sum_j phi(k_j) v_j^T,  z = sum_j phi(k_j)
#pragma once

#include "engine/ops/feature_map.h"
#include "layers/attention/composed.h"
#include "layers/attention/mechanism.h"
#include "layers/spectral/distribution.h"

namespace bochner {

struct KernelForm {
  FeatureMap map;
  composed::KernelAttentionOptions attention;
  bool scaled = true;  ///< x D^(-1/4) before the map, so that q . k becomes q . k / sqrt(D)
};

class KernelAttention : public Mechanism {
 public:
  /// `distribution` builds the frequencies as a child of this module; empty: the map acts on x itself.
  using MakeDistribution = std::function<std::unique_ptr<SpectralDistribution>(Slot)>;
  KernelAttention(Slot slot, const KernelForm& form, const MakeDistribution& distribution, bool streaming);

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override;

 private:
  KernelForm form_;
  std::unique_ptr<SpectralDistribution> distribution_;
  bool streaming_;
};

}  // namespace bochner
