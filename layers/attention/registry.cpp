// The table of contents of attention: every name that --attention takes, in the order of `mechanisms()`.
#include <cmath>

#include "engine/nearest.h"
#include "layers/attention/exact.h"
#include "layers/attention/kernel.h"

namespace bochner {
namespace {

using Options = AttentionOptions;
using Made = std::unique_ptr<Mechanism>;
using As = AttentionOptions::As;

KernelAttentionSpec spec_of(const Options& options, const FeatureMap& map) {
  return {.map = map, .denominator_eps = options.denominator_eps};
}

RedrawSchedule schedule_of(const Options& options) { return {options.redraw, options.redraw_in_evaluation}; }

/// KL as released draws at every forward, in evaluation too (reference implementation's `redraw=1`).
RedrawSchedule kl_schedule(const Options& options) {
  return options.as == As::released ? RedrawSchedule{1, true} : schedule_of(options);
}

Made make_softmax(Slot slot, int64_t, int64_t, const Options& options, Generator&) {
  return std::make_unique<SoftmaxAttention>(slot, options);
}

Made make_none(Slot slot, int64_t, int64_t, const Options&, Generator&) { return std::make_unique<NoAttention>(slot); }

Made make_linear_elu(Slot slot, int64_t, int64_t, const Options& options, Generator&) {
  FeatureMap map = {.kind = FeatureMap::Kind::elementwise, .function = FeatureMap::Function::elu_plus_one, .eps = 0};
  return std::make_unique<KernelAttention>(slot, spec_of(options, map), false, nullptr, options.streaming);
}

Made make_performer(Slot slot, int64_t, int64_t dim, const Options& options, Generator& init) {
  FeatureMap map = {.kind = FeatureMap::Kind::positive, .norm_factor = 0.5, .eps = options.eps};
  return std::make_unique<KernelAttention>(
      slot, spec_of(options, map), true,
      [&](Slot place) {
        return std::make_unique<OrthogonalFrequencies>(place, options.features, dim, OrthogonalOptions{},
                                                       schedule_of(options), init);
      },
      options.streaming);
}

std::unique_ptr<SpectralDistribution> make_mixture(Slot place, int64_t heads, int64_t dim, bool positive,
                                                   const Options& options, Generator& init) {
  if (options.as == As::released) {
    return std::make_unique<ReleasedMixture>(place, heads, options.features, dim, positive, kl_schedule(options), init);
  }
  const auto covariance = positive ? MixtureOptions::Covariance::diagonal : MixtureOptions::Covariance::full;
  return std::make_unique<GaussianMixture>(place, heads, options.features, dim,
                                           MixtureOptions{covariance, options.components}, kl_schedule(options), init);
}

Made make_gmm_rks(Slot slot, int64_t heads, int64_t dim, const Options& options, Generator& init) {
  FeatureMap map = {.kind = FeatureMap::Kind::trigonometric, .eps = 0};
  // Released: two frequencies for each of m draws with weight 1 / m each, and one more feature s = 1, all in units of
  // the mean of m.
  if (options.as == As::released) map.constant = std::sqrt(static_cast<double>(options.features) / 2);
  return std::make_unique<KernelAttention>(
      slot, spec_of(options, map), true,
      [&](Slot place) { return make_mixture(place, heads, dim, false, options, init); }, options.streaming);
}

Made make_gmm_prf(Slot slot, int64_t heads, int64_t dim, const Options& options, Generator& init) {
  FeatureMap map = {
      .kind = FeatureMap::Kind::positive, .norm_factor = 1, .eps = options.as == As::released ? 0 : options.eps};
  return std::make_unique<KernelAttention>(
      slot, spec_of(options, map), true,
      [&](Slot place) { return make_mixture(place, heads, dim, true, options, init); }, options.streaming);
}

}  // namespace

const std::vector<MechanismInfo>& mechanisms() {
  static const std::vector<MechanismInfo> list = {
      {"softmax", 2017, "Vaswani et al.", "O = softmax(Q K^T / sqrt D) V", "", "L^2 D", true, "", make_softmax},
      {"linear-elu", 2020, "Katharopoulos et al.", "phi(x) = elu(x) + 1", "", "L D^2", true, "", make_linear_elu},
      {"performer", 2021, "PERF Eq. 3, Lemma 1", "phi(x) = exp(omega x - |x|^2 / 2) / sqrt M, orthogonal omega",
       "softmax", "L M D", true, "", make_performer},
      {"gmm-rks", 2022, "KL Eqs. 4, 5", "phi(x) = (cos omega x, sin omega x), omega ~ sum_c N(mu_c, Sigma_c) / C",
       "the kernel of a learnt Gaussian mixture", "L M D + M D^2", true, "mu, Sigma", make_gmm_rks},
      {"gmm-prf", 2022, "KL Eqs. 9, 10", "phi(x) = exp(omega x - |x|^2), omega ~ sum_c N(mu_c, diag sigma_c^2) / C",
       "the kernel of a learnt Gaussian mixture", "L M D", true, "mu, sigma", make_gmm_prf},
      {"none", 2021, "PERF Figs. 3, 20, 21 (X)", "O = V", "", "0", true, "", make_none},
  };
  return list;
}

const MechanismInfo& mechanism_named(const std::string& name) {
  std::vector<std::string> names;
  std::string all;
  for (const MechanismInfo& info : mechanisms()) {
    if (info.name == name) return info;
    names.push_back(info.name);
    all += (all.empty() ? "" : ", ") + info.name;
  }
  fail("attention: '{}' is not known; the nearest is '{}' (all: {})", name, nearest(name, names), all);
}

}  // namespace bochner
