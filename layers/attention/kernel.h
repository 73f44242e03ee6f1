// Kernel attention: a feature map with frequencies from a spectral distribution. Its cost is linear in the length:
//   O_i = phi(q_i)^T S / (phi(q_i)^T z),  S = sum_j phi(k_j) v_j^T,  z = sum_j phi(k_j)
#pragma once

#include <functional>

#include "engine/ops/attention/kernel_attention.h"
#include "layers/attention/mechanism.h"
#include "layers/spectral/distribution.h"

namespace bochner {

class KernelAttention : public Mechanism {
 public:
  /// What is done to the inputs before the feature map, and how the features are scaled.
  struct Inputs {
    double power = 0;            ///< x is multiplied by D^-power; 1/4 turns q . k into q . k / sqrt(D)
    bool sees_padding = false;   ///< key masks are ignored
    bool zeros_padding = false;  ///< padded keys and values are set to 0, and their weights count in the sum
    double draws = 0;            ///< n: features are divided by sqrt(n); 0: FeatureMap::draws() of the frequencies
  };
  /// `distribution` builds the frequencies as a child of this module; empty: the map acts on x itself.
  using MakeDistribution = std::function<std::unique_ptr<SpectralDistribution>(Slot)>;
  KernelAttention(Slot slot, const KernelAttentionSpec& spec, const Inputs& inputs,
                  const MakeDistribution& distribution, bool streaming);

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override;
  bool reads_bf16() const override { return streaming_; }
  bool takes_slices() const override { return streaming_; }
  Tensor frequencies(bool training) override;

 private:
  KernelAttentionSpec spec_;
  Inputs inputs_;
  std::unique_ptr<SpectralDistribution> distribution_;
  bool streaming_;
};

}  // namespace bochner
