// What the kernel attentions share: products of a feature map (engine/ops/features/feature_map.h) and a distribution of
// frequencies (layers/spectral). Those of PERF (performer.cpp) and KL (learnt_kernels.cpp) differ in nothing else.
#pragma once

#include <memory>

#include "layers/attention/kernel.h"

namespace bochner::kernel_family {

/// Q and K times D^(-1/4), so that q . k is what softmax takes the exponential of.
inline constexpr KernelAttention::Inputs kScaled{.power = 0.25};

/// Options that all of them have.
struct SumOptions : FusedKernels {
  bool renormalise = true;  ///< without: PERF §D.3
  /// Added to sums of weights, as in KL's released code. Sums of exponentials are those of the shifted ones, and
  /// derivatives treat the shift as a constant; 0, as all papers write it, makes them exact. A query without keys gets
  /// zeros.
  double denominator_eps = 0;
  void options(OptionList& list) {
    list("renormalise", renormalise, "divide by sums of weights");
    list("denominator-eps", denominator_eps,
         "added to sums of weights; where those are of exponentials, after these were divided by the largest")
        .at_least(0)
        .counts_where([this] { return renormalise; });
    FusedKernels::options(list);
  }
};

/// The attention of that map.
inline std::unique_ptr<Mechanism> product(Slot slot, const SumOptions& options, const FeatureMap& map,
                                          const KernelAttention::Inputs& inputs,
                                          const KernelAttention::MakeDistribution& frequencies) {
  const KernelAttentionSpec spec{
      .map = map, .renormalise = options.renormalise, .denominator_eps = options.denominator_eps};
  return std::make_unique<KernelAttention>(slot, spec, inputs, frequencies, options.streaming);
}

}  // namespace bochner::kernel_family
