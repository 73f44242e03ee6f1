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
    f("as", as, "where paper and released code differ").one_of({"paper", "released"});
    f("features", options.features, "M, random features (rows of Omega), landmarks, or projected places").at_least(1);
    f("redraw", options.redraw, "training steps between draws of random features; 0: never").at_least(0);
    f("redraw-in-evaluation", options.redraw_in_evaluation, "draw anew for every batch of an evaluation, too");
    f("components", options.components, "Gaussians of the mixture of gmm-*").at_least(1);
    f("length", options.length, "longest sequence, for parameters of places; 0: as long as the input").at_least(0);
    further(f);
  }

  /// What is left beside those that a model names itself.
  void further(Fields& f) {
    f("coupling", coupling, "how rows of Omega depend on one another")
        .one_of({"independent", "orthogonal", "hadamard", "givens"});
    f("covariance", covariance, "of gmm-*: as KL has it, full of gmm-rks and diagonal of gmm-prf")
        .one_of({"paper", "diagonal", "full"});
    f("mixture", mixture, "of gmm-*; tied: two Gaussians of one Sigma at mu and -mu, as KL's experiments")
        .one_of({"free", "tied"});
    f("sigma", options.sigma, "bandwidth of fastfood-* at first").above(0);
    f("eps", options.eps,
      "share of the largest exponential added to each feature of performer, -hyp and -reg; derivatives hold the "
      "largest constant")
        .at_least(0);
    f("kernel-eps", options.kernel_eps, "added to generalised features f(omega x)").at_least(0);
    f("denominator-eps", options.denominator_eps,
      "added to sums of weights; where those are of exponentials, after these were divided by the largest")
        .at_least(0);
    f("renormalise", options.renormalise, "divide by sums of weights");
    f("dropout", options.dropout, "dropout of attention weights, where there are such").at_least(0).below(1);
    f("streaming", options.streaming, "the fused kernels; no: the plain composition that they equal");
    f("iterations", options.iterations, "of the Nystrom methods' inverse, or of sinkhorn's normalisation").at_least(0);
    f("exact-inverse", options.exact_inverse, "a pseudo-inverse in place of the iteration");
    f("kernel", kernel, "what skyformer approximates: its own kernel, or softmax's").one_of({"gaussian", "softmax"});
    f("gamma", options.gamma, "added to skyformer's diagonal").above(0);
    f("convolution", options.convolution, "places that nystromformer's convolution spans; 0: none").at_least(0);
    f("block", options.block, "tokens of a block, chunk, stride or half window").at_least(1);
    f("global-tokens", options.global_tokens, "of longformer").at_least(0);
    f("random-blocks", options.random_blocks, "of bigbird").at_least(0);
    f("summary", options.summary, "tokens of each block that all see (sparse)").at_least(1);
    f("hashes", options.hashes, "rounds of reformer").at_least(1);
    f("factor", options.factor, "of informer: c ln L queries attend").at_least(1);
    f("temperature", options.temperature, "of sinkhorn's sorting").above(0);
    f("synthesis", synthesis, "where synthesizer has its scores from").one_of({"random", "factorized", "dense"});
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
