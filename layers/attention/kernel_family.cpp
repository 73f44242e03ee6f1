// The kernel attentions: products of a feature map (engine/ops/features/feature_map.h) and a distribution of
// frequencies (layers/spectral). The six kernels of KL, Performer and linear attention differ in nothing else.
#include <cmath>

#include "layers/attention/kernel.h"
#include "layers/spectral/fastfood.h"
#include "layers/spectral/generator.h"
#include "layers/spectral/mixture.h"
#include "layers/spectral/orthogonal.h"

namespace bochner {
namespace {

using Options = AttentionOptions;
using Made = std::unique_ptr<Mechanism>;
using MakeDistribution = KernelAttention::MakeDistribution;
using Kind = FeatureMap::Kind;
using Function = FeatureMap::Function;
using Norms = OrthogonalOptions::Norms;

bool released(const Options& options) { return options.as == Options::As::released; }

constexpr KernelAttention::Inputs kScaled{.power = 0.25};

/// The attention of that map.
Made product(Slot slot, const Options& options, const FeatureMap& map, const KernelAttention::Inputs& inputs,
             const MakeDistribution& frequencies) {
  KernelAttentionSpec spec{.map = map, .renormalise = options.renormalise, .denominator_eps = options.denominator_eps};
  // KL as released adds 1e-6, to sums whose features are over the constant.
  if (map.constant != 0) spec.denominator_eps += 1e-6 * map.constant * map.constant;
  return std::make_unique<KernelAttention>(slot, spec, inputs, frequencies, options.streaming);
}

// ---- PERF

const char* const kPerformerOptions =
    "features, coupling, redraw, redraw_in_evaluation, denominator_eps, renormalise, streaming";

MakeDistribution gaussian(const Options& options, int64_t dim, Norms norms, Generator& init) {
  using Coupling = Options::Coupling;
  using Matrix = OrthogonalOptions::Matrix;
  return [&options, &init, dim, norms](Slot place) -> std::unique_ptr<SpectralDistribution> {
    const RedrawSchedule schedule{options.redraw, options.redraw_in_evaluation};
    if (options.coupling == Coupling::independent) {
      if (norms == Norms::sqrt_dim) fail("performer-reg: rows of equal norm are orthogonal; choose another coupling");
      return std::make_unique<GaussianFrequencies>(place, options.features, dim, schedule, init);
    }
    const Matrix matrix = options.coupling == Coupling::hadamard ? Matrix::hadamard
                          : options.coupling == Coupling::givens ? Matrix::givens
                                                                 : Matrix::haar;
    return std::make_unique<OrthogonalFrequencies>(place, options.features, dim, OrthogonalOptions{norms, matrix},
                                                   schedule, init);
  };
}

MechanismInfo performer(const std::string& name, const std::string& source, const std::string& equation,
                        const std::string& approximates, const FeatureMap& map, Norms norms = Norms::chi) {
  const bool has_eps = map.kind != Kind::softmax_trigonometric;
  return {name,
          2021,
          source,
          equation + (has_eps ? ", m the largest exponential of the query, or of all keys it may see" : ""),
          approximates,
          "L M D",
          true,
          "",
          std::string(kPerformerOptions) + (has_eps ? ", eps" : ""),
          [map, norms](Slot slot, int64_t, int64_t dim, const Options& options, Generator& init) {
            FeatureMap chosen = map;
            if (map.kind != Kind::softmax_trigonometric) chosen.eps = options.eps;
            return product(slot, options, chosen, kScaled, gaussian(options, dim, norms, init));
          }};
}

/// Generalised attention (PERF Eq. 5, A.4): phi(x) = (f(Omega x) + eps) / sqrt M. As released, phi(x) = f(x) + eps
/// without Omega.
MechanismInfo generalised(const std::string& f, Function function) {
  return {"performer-" + f,
          2021,
          "PERF Eq. 5, A.4",
          "phi(x) = (" + f + "(omega x) + kernel-eps) / sqrt M, orthogonal omega ~ N(0, I)",
          "",
          "L M D",
          true,
          "",
          std::string(kPerformerOptions) + ", kernel_eps, as",
          [function](Slot slot, int64_t, int64_t dim, const Options& options, Generator& init) {
            FeatureMap map = {.kind = Kind::elementwise, .function = function, .eps = options.kernel_eps};
            // e^u overflows: it is shifted by its maximum, and its eps with it.
            if (function == Function::exp) {
              map = {.kind = Kind::positive, .norm_factor = 0, .eps = options.kernel_eps, .absolute_eps = true};
            }
            return product(slot, options, map, {},
                           released(options) ? MakeDistribution() : gaussian(options, dim, Norms::chi, init));
          },
          "phi(x) = f(x) + kernel-eps, without Omega"};
}

// ---- KL

const char* const kKlOptions = "features, redraw, redraw_in_evaluation, denominator_eps, renormalise, streaming, as";

/// What the released code does otherwise: all of them, and sinks.
std::string released_kl(bool is_positive, const std::string& more) {
  return std::string("draws at every forward, in evaluation too; ") +
         (is_positive ? "" : "one more feature adds the mean of 1 to the kernel; ") + more;
}

/// KL as released draws at every forward, in evaluation too (reference implementation's `redraw=1`), but where it is
/// told never to.
RedrawSchedule kl_schedule(const Options& options) {
  return released(options) && options.redraw > 0 ? RedrawSchedule{1, true, true}
                                                 : RedrawSchedule{options.redraw, options.redraw_in_evaluation};
}

/// Random kitchen sinks (KL Eq. 3). As released, one more feature adds 1 to the kernel, the mean over `draws`.
FeatureMap sinks(const Options& options, int64_t draws) {
  const double one = std::sqrt(static_cast<double>(draws));
  return {.kind = Kind::trigonometric, .eps = 0, .constant = released(options) ? one : 0};
}

/// Positive features of KL Eq. 9, with |x|^2 where Performer has |x|^2 / 2.
constexpr FeatureMap kPositive{.kind = Kind::positive, .norm_factor = 1, .eps = 0};

MakeDistribution mixture(int64_t heads, int64_t dim, bool is_positive, const Options& options, Generator& init) {
  return [=, &options, &init](Slot place) -> std::unique_ptr<SpectralDistribution> {
    if (released(options)) {
      return std::make_unique<ReleasedMixture>(place, heads, options.features, dim, is_positive, kl_schedule(options),
                                               init);
    }
    using Asked = Options::Covariance;
    const bool diagonal = options.covariance == Asked::paper ? is_positive : options.covariance == Asked::diagonal;
    const auto covariance = diagonal ? MixtureOptions::Covariance::diagonal : MixtureOptions::Covariance::full;
    return std::make_unique<GaussianMixture>(
        place, heads, options.features, dim,
        MixtureOptions{covariance, options.components, options.mixture == Options::Mixture::tied}, kl_schedule(options),
        init);
  };
}

MakeDistribution fastfood(int64_t dim, FastFoodOptions::Learn learn, const Options& options, Generator& init) {
  return [=, &options, &init](Slot place) {
    return std::make_unique<FastFoodFrequencies>(place, options.features, dim,
                                                 FastFoodOptions{learn, options.sigma, released(options)},
                                                 kl_schedule(options), init);
  };
}

MakeDistribution generator(int64_t dim, const Options& options, Generator& init) {
  return [=, &options, &init](Slot place) {
    GeneratorOptions network;
    if (released(options)) {  // the widths of the Text task
      network = {std::max<int64_t>(1, dim / 2), {2 * dim, 4 * dim}, {.init = LinearOptions::Init::xavier}};
    }
    return std::make_unique<GeneratedFrequencies>(place, options.features, dim, network, kl_schedule(options), init);
  };
}

}  // namespace

void describe_linear_elu(Mechanisms& list) {
  list.push_back({"linear-elu", 2020, "Katharopoulos et al.", "phi(x) = elu(x) + 1", "", "L D^2", true, "",
                  "denominator_eps, renormalise, streaming, as",
                  [](Slot slot, int64_t, int64_t, const Options& options, Generator&) {
                    const FeatureMap map{.kind = Kind::elementwise, .function = Function::elu_plus_one, .eps = 0};
                    return product(slot, options, map, {.sees_padding = released(options)}, nullptr);
                  },
                  "padded keys count (LRA)"});
}

void describe_performers(Mechanisms& list) {
  const FeatureMap positive_map{.kind = Kind::positive, .norm_factor = 0.5};
  MechanismInfo plain = performer("performer", "PERF Eq. 4, Lemma 1",
                                  "phi(x) = (exp(omega x - |x|^2 / 2) + eps m) / sqrt M, orthogonal omega ~ N(0, I)",
                                  "softmax", positive_map);
  plain.options += ", as";
  plain.released =
      "SKY: q . k / D, as inputs are scaled twice; eps 1e-4; drawn once; padded keys count in the sums of weights";
  plain.make = [paper = plain.make, positive_map](Slot slot, int64_t heads, int64_t dim, const Options& options,
                                                  Generator& init) {
    if (!released(options)) return paper(slot, heads, dim, options, init);
    FeatureMap map = positive_map;
    map.eps = 1e-4;
    Options once = options;
    once.redraw = 0;
    once.redraw_in_evaluation = false;
    return product(slot, once, map, {.power = 0.5, .zeros_padding = true}, gaussian(once, dim, Norms::chi, init));
  };
  list.push_back(std::move(plain));
  list.push_back(performer("performer-trig", "PERF Eqs. 5, 6",
                           "phi(x) = exp(|x|^2 / 2) (cos omega x, sin omega x) / sqrt M", "softmax",
                           {.kind = Kind::softmax_trigonometric, .eps = 0}));
  list.push_back(performer("performer-hyp", "PERF Lemma 1",
                           "phi(x) = (exp(-|x|^2 / 2) (exp(omega x), exp(-omega x)) + eps m) / sqrt 2M", "softmax",
                           {.kind = Kind::hyperbolic, .norm_factor = 0.5}));
  list.push_back(performer("performer-reg", "PERF §2.3 (SMREG)",
                           "phi(x) = (exp(sqrt D omega x / |omega| - |x|^2 / 2) + eps m) / sqrt M",
                           "the regularised softmax kernel", positive_map, Norms::sqrt_dim));
  for (const auto& [name, function] : kFeatureFunctions) {
    if (function == Function::elu_plus_one) continue;  // linear-elu
    list.push_back(generalised(name, function));
  }
}

void describe_mixtures(Mechanisms& list) {
  const std::string kernel = "the kernel of a learnt Gaussian mixture";
  const std::string options = std::string(kKlOptions) + ", components, mixture, covariance";
  list.push_back({"gmm-rks", 2022, "KL Eqs. 4, 5",
                  "phi(x) = (cos omega x, sin omega x) / sqrt M, omega ~ sum_c N(mu_c, Sigma_c) / C", kernel,
                  "L M D + M D^2", true, "mu, Sigma", options,
                  [](Slot slot, int64_t heads, int64_t dim, const Options& chosen, Generator& init) {
                    // Released: two frequencies for each of M / 2 draws.
                    return product(slot, chosen, sinks(chosen, chosen.features / 2), kScaled,
                                   mixture(heads, dim, false, chosen, init));
                  },
                  released_kl(false, "two Gaussians at +-mu with one full matrix and the same noise")});
  list.push_back({"gmm-prf", 2022, "KL Eqs. 9, 10",
                  "phi(x) = exp(omega x - |x|^2) / sqrt M, omega ~ sum_c N(mu_c, diag sigma_c^2) / C", kernel, "L M D",
                  true, "mu, sigma", options,
                  [](Slot slot, int64_t heads, int64_t dim, const Options& chosen, Generator& init) {
                    return product(slot, chosen, kPositive, kScaled, mixture(heads, dim, true, chosen, init));
                  },
                  released_kl(true, "one Gaussian, omega = exp(sigma / 2) n + mu")});
}

void describe_fastfood(Mechanisms& list) {
  using Learn = FastFoodOptions::Learn;
  for (const bool prf : {false, true}) {
    for (const auto& [suffix, learn, learns] : {std::tuple{"", Learn::sgb, "S, G, B"}, std::tuple{"-s", Learn::s, "S"},
                                                std::tuple{"-fixed", Learn::none, ""}}) {
      list.push_back({std::string(prf ? "fastfood-prf" : "fastfood-rks") + suffix, 2022,
                      std::string(prf ? "KL Eqs. 9, 12" : "KL Eq. 6") + (*suffix == 0 ? "" : ", D.1"),
                      prf ? "phi(x) = exp(V x - |x|^2) / sqrt M, V = S H G Pi H B / (sigma sqrt D)"
                          : "phi(x) = (cos V x, sin V x) / sqrt M, V = S H G Pi H B / (sigma sqrt D)",
                      learn == Learn::none ? "the Gaussian kernel" : "a learnt kernel", "L M log D, and L M D for V",
                      true, learns, std::string(kKlOptions) + ", sigma",
                      [prf, learn = learn](Slot slot, int64_t, int64_t dim, const Options& options, Generator& init) {
                        return product(slot, options, prf ? kPositive : sinks(options, options.features), kScaled,
                                       fastfood(dim, learn, options, init));
                      },
                      released_kl(prf, "S, G, B ~ N(0, 1 / D) at first, where they learn")});
    }
  }
}

void describe_generative(Mechanisms& list) {
  for (const bool prf : {false, true}) {
    list.push_back({prf ? "generative-prf" : "generative-rks", 2022, prf ? "KL Eqs. 9, 11" : "KL Eqs. 7, 8",
                    prf ? "phi(x) = exp(omega x - |x|^2) / sqrt M, omega = g(n), n ~ N(0, I)"
                        : "phi(x) = (cos omega x, sin omega x) / sqrt M, omega = g(n), n ~ N(0, I)",
                    "the kernel of a learnt distribution", "L M D + M D^2", true, "the generator g", kKlOptions,
                    [prf](Slot slot, int64_t, int64_t dim, const Options& options, Generator& init) {
                      return product(slot, options, prf ? kPositive : sinks(options, options.features), kScaled,
                                     generator(dim, options, init));
                    },
                    released_kl(prf, "noise of D / 2 numbers, hidden layers of 2 D and 4 D")});
  }
}

}  // namespace bochner
