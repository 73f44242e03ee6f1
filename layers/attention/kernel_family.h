// What the kernel attentions share. Each combines a feature map (engine/ops/features/feature_map.h) with a distribution
// of frequencies (layers/spectral); those of PERF (performer.cpp) and KL (learnt_kernels.cpp) differ in nothing else.
#pragma once

#include <memory>

#include "layers/attention/kernel.h"

namespace bochner::kernel_family {

/// Multiplies Q and K by D^(-1/4), so that q . k is the score of softmax attention.
inline constexpr KernelAttention::Inputs kScaled{.power = 0.25};

/// The options that all of them have.
struct SumOptions : FusedKernels {
  bool renormalise = true;  ///< false: PERF §D.3
  /// Added to the sums of weights, as in KL's released code. Where weights are exponentials, it is added to the sum of
  /// the shifted ones, and derivatives treat the shift as a constant. With 0, as in all the papers, derivatives are
  /// exact. A query without keys gets zeros.
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

/// The attention with that feature map.
inline std::unique_ptr<Mechanism> product(Slot slot, const SumOptions& options, const FeatureMap& map,
                                          const KernelAttention::Inputs& inputs,
                                          const KernelAttention::MakeDistribution& frequencies) {
  const KernelAttentionSpec spec{
      .map = map, .renormalise = options.renormalise, .denominator_eps = options.denominator_eps};
  return std::make_unique<KernelAttention>(slot, spec, inputs, frequencies, options.streaming);
}

}  // namespace bochner::kernel_family
