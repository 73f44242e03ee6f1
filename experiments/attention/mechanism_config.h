// The options of attention mechanisms (layers/attention/mechanism.h) as fields of an experiment's config.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "experiments/common/config/fields.h"
#include "layers/attention/mechanism.h"

namespace bochner {

/// The names of the registry.
inline std::vector<std::string> attention_names() {
  std::vector<std::string> names;
  for (const MechanismInfo& info : mechanisms()) names.push_back(info.name);
  return names;
}

struct MechanismConfig {
  AttentionOptions options = {};
  std::string as = "paper";
  std::string coupling = "orthogonal";
  std::string covariance = "paper";
  std::string mixture = "free";
  std::string kernel = "gaussian";
  std::string synthesis = "random";

  void fields(Fields& f) {
    f("as", as, "which to follow where the paper and its released code differ").one_of({"paper", "released"});
    f("features", options.features, "M: number of random features (rows of Omega), landmarks, or projected positions")
        .at_least(1);
    f("redraw", options.redraw, "training steps between draws of random features; 0: never").at_least(0);
    f("redraw-in-evaluation", options.redraw_in_evaluation,
      "also draw new random features for every batch of an evaluation");
    f("components", options.components, "Gaussians of the mixture of gmm-*").at_least(1);
    f("length", options.length, "longest sequence, for parameters that belong to positions; 0: as long as the input")
        .at_least(0);
    further(f);
  }

  /// What is left beside those that a model names itself.
  void further(Fields& f) {
    f("coupling", coupling, "how rows of Omega depend on one another")
        .one_of({"independent", "orthogonal", "hadamard", "givens"});
    f("covariance", covariance, "covariances of gmm-*; paper, as in KL: full for gmm-rks and diagonal for gmm-prf")
        .one_of({"paper", "diagonal", "full"});
    f("mixture", mixture, "Gaussians of gmm-*; tied: two with the same Sigma at mu and -mu, as in KL's experiments")
        .one_of({"free", "tied"});
    f("sigma", options.sigma, "initial bandwidth of fastfood-*").above(0);
    f("eps", options.eps,
      "share of the largest exponential added to each feature of performer, -hyp and -reg; derivatives hold the "
      "largest constant")
        .at_least(0);
    f("kernel-eps", options.kernel_eps, "added to generalised features f(omega x)").at_least(0);
    f("denominator-eps", options.denominator_eps,
      "added to sums of weights; where those are of exponentials, after these were divided by the largest")
        .at_least(0);
    f("renormalise", options.renormalise, "divide by sums of weights");
    f("dropout", options.dropout, "dropout of attention weights, in mechanisms that have them").at_least(0).below(1);
    f("streaming", options.streaming, "use the fused kernels; no: the plain composition that they equal");
    f("iterations", options.iterations, "iterations of the Nystrom methods' inverse, or of sinkhorn's normalisation")
        .at_least(0);
    f("exact-inverse", options.exact_inverse, "use a pseudo-inverse instead of the iteration");
    f("kernel", kernel, "what skyformer approximates: its own kernel, or softmax's").one_of({"gaussian", "softmax"});
    f("gamma", options.gamma, "added to skyformer's diagonal").above(0);
    f("convolution", options.convolution, "positions that nystromformer's convolution spans; 0: none").at_least(0);
    f("block", options.block, "number of tokens in a block, chunk, stride or half window").at_least(1);
    f("global-tokens", options.global_tokens, "number of global tokens of longformer").at_least(0);
    f("random-blocks", options.random_blocks, "number of random blocks of bigbird").at_least(0);
    f("summary", options.summary, "sparse: number of tokens of each block that all tokens see").at_least(1);
    f("hashes", options.hashes, "number of hashing rounds of reformer").at_least(1);
    f("factor", options.factor, "c of informer, in which c ln L queries attend").at_least(1);
    f("temperature", options.temperature, "temperature of sinkhorn's sorting").above(0);
    f("synthesis", synthesis, "how synthesizer makes its scores").one_of({"random", "factorized", "dense"});
  }

  /// The options, with a length where they name none.
  AttentionOptions chosen(int64_t length) const {
    AttentionOptions result = options;
    if (result.length == 0) result.length = length;
    using Coupling = AttentionOptions::Coupling;
    using Synthesis = AttentionOptions::Synthesis;
    using Covariance = AttentionOptions::Covariance;
    using Kernel = AttentionOptions::Kernel;
    result.mixture = mixture == "tied" ? AttentionOptions::Mixture::tied : AttentionOptions::Mixture::free;
    result.as = as == "released" ? AttentionOptions::As::released : AttentionOptions::As::paper;
    result.coupling = coupling == "independent" ? Coupling::independent
                      : coupling == "hadamard"  ? Coupling::hadamard
                      : coupling == "givens"    ? Coupling::givens
                                                : Coupling::orthogonal;
    result.covariance = covariance == "diagonal" ? Covariance::diagonal
                        : covariance == "full"   ? Covariance::full
                                                 : Covariance::paper;
    result.kernel = kernel == "softmax" ? Kernel::softmax : Kernel::gaussian;
    result.synthesis = synthesis == "factorized" ? Synthesis::factorized
                       : synthesis == "dense"    ? Synthesis::dense
                                                 : Synthesis::random;
    return result;
  }
};

}  // namespace bochner
