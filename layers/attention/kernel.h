// Kernel attention: a spectral distribution times a feature map. Linear in the length:
//   O_i = phi(q_i)^T S / (phi(q_i)^T z),  S = sum_j phi(k_j) v_j^T,  z = sum_j phi(k_j)
#pragma once

#include <functional>

#include "engine/ops/attention/kernel_attention.h"
#include "layers/attention/mechanism.h"
#include "layers/spectral/distribution.h"

namespace bochner {

class KernelAttention : public Mechanism {
 public:
  /// What is done to the inputs before the map, and how its features are scaled.
  struct Inputs {
    double power = 0;            ///< x D^-power; 1/4 makes q . k into q . k / sqrt(D)
    bool sees_padding = false;   ///< masks of keys are ignored
    bool zeros_padding = false;  ///< padded keys and their values are 0, and their weights count in the sum
    double draws = 0;            ///< n: the map's features are over sqrt(n); 0: FeatureMap::draws() of its frequencies
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
