// The six kernels of KL, whose spectral distribution is learnt: a Gaussian mixture, FastFood or a generator network,
// each with random kitchen sinks or positive random features.
#include <algorithm>
#include <cmath>

#include "layers/attention/kernel_family.h"
#include "layers/spectral/fastfood.h"
#include "layers/spectral/generator.h"
#include "layers/spectral/mixture.h"

namespace bochner {
namespace {

using kernel_family::kScaled;
using kernel_family::product;
using kernel_family::SumOptions;
using MakeDistribution = KernelAttention::MakeDistribution;
using Kind = FeatureMap::Kind;

struct KlOptions : Joined<FeatureCount, Redraws, SumOptions, VersionOption> {
  void options(OptionList& list) {
    Joined::options(list);
    list.at("redraw-in-evaluation").counts_where([this] { return !released() || redraw == 0; });
  }
};

struct MixtureKernelOptions : KlOptions {
  int64_t components = 2;  ///< C (KL Eq. 4)
  /// Tied: C = 2, mu_1 = -mu_2 and Sigma_1 = Sigma_2, as in KL's experiments (footnote 2).
  enum class Mixture : unsigned char { free, tied };
  Mixture mixture = Mixture::free;
  /// KL has matrices in gmm-rks and diagonals in gmm-prf (KL Eqs. 5, 10; Table 1).
  enum class Covariance : unsigned char { paper, diagonal, full };
  Covariance covariance = Covariance::paper;
  void options(OptionList& list) {
    KlOptions::options(list);
    const auto as_in_the_paper = [this] { return !released(); };
    list("components", components, "Gaussians of the mixture of gmm-*")
        .at_least(1)
        .at_most(1 << 16)
        .counts_where(as_in_the_paper);
    list("mixture", mixture, {{"free", Mixture::free}, {"tied", Mixture::tied}},
         "Gaussians of gmm-*; tied: two with the same Sigma at mu and -mu, as in KL's experiments")
        .counts_where(as_in_the_paper);
    list("covariance", covariance,
         {{"paper", Covariance::paper}, {"diagonal", Covariance::diagonal}, {"full", Covariance::full}},
         "covariances of gmm-*; paper, as in KL: full for gmm-rks and diagonal for gmm-prf")
        .counts_where(as_in_the_paper);
  }
};

struct SmoothedMixtureOptions : MixtureKernelOptions {
  double smoothing = 1;  ///< s of KL's code: 1 on ListOps and Retrieval, 0.36 on Text
  void options(OptionList& list) {
    MixtureKernelOptions::options(list);
    list("smoothing", smoothing,
         "s of gmm-rks as released: s^2 is added to the sum of both Gaussians' kernels; KL's code had 1, on Text 0.36")
        .at_least(0)
        .counts_where([this] { return released(); });
  }
};

struct GenerativeOptions : KlOptions {
  int64_t noise = 0;                 ///< numbers of n_m; 0: D, as released D / 2
  std::vector<int64_t> hidden = {};  ///< none: four layers of D (KL §2.1), as released 2 D and 4 D
  void options(OptionList& list) {
    KlOptions::options(list);
    list("generator-noise", noise, "numbers of noise of which generative-* makes a frequency; 0: D, as released D / 2")
        .at_least(0)
        .at_most(1 << 16);
    list("generator-hidden", hidden,
         "sizes of the generator's hidden layers; none: four of D, as released 2 D and 4 D, as on Text; on ListOps and "
         "Retrieval KL's code had one of 4 D, and noise of D numbers")
        .at_least(1)
        .at_most(1 << 16);
  }
};

struct FastFoodKernelOptions : KlOptions {
  double sigma = 1;  ///< frequencies are N(0, 1 / sigma^2) at first (KL Eq. 6)
  void options(OptionList& list) {
    KlOptions::options(list);
    list("sigma", sigma, "initial bandwidth of fastfood-*").above(0);
  }
};

/// What the released code does differently, for every mechanism of KL and for random kitchen sinks, which add
/// `constant` to the kernel.
std::string released_kl(bool is_positive, const std::string& more, const std::string& constant = "1") {
  return "draws at every forward, in evaluation too; " +
         (is_positive ? "but without the 1e-6 that KL's code adds to the sum of weights"
                      : "one more feature adds " + constant + " to the kernel") +
         "; " + more;
}

/// KL as released draws at every forward pass, in evaluation too (`redraw=1` in its code), unless redraw is 0.
RedrawSchedule kl_schedule(const KlOptions& options) {
  return options.released() && options.redraw > 0 ? RedrawSchedule{1, true, true} : options.schedule();
}

/// Attention of random kitchen sinks (KL Eq. 3). As released, one more feature adds `s`^2 to the kernel, the mean over
/// `draws`.
std::unique_ptr<Mechanism> sinks(Slot slot, KlOptions options, int64_t draws, double s,
                                 const MakeDistribution& frequencies) {
  FeatureMap map{.kind = Kind::trigonometric, .eps = 0};
  KernelAttention::Inputs inputs = kScaled;
  if (options.released()) {
    inputs.draws = static_cast<double>(draws);
    map.constant = s * std::sqrt(inputs.draws);
    options.denominator_eps += 1e-6 * inputs.draws;  // KL's code adds 1e-6 to sums whose features are over sqrt(draws)
  }
  return product(slot, options, map, inputs, frequencies);
}

/// Positive features of KL Eq. 9, with |x|^2 where Performer has |x|^2 / 2.
constexpr FeatureMap kPositive{.kind = Kind::positive, .norm_factor = 1, .eps = 0};

MakeDistribution mixture(int64_t heads, int64_t dim, bool is_positive, const MixtureKernelOptions& options,
                         Generator& init) {
  return [=, &options, &init](Slot place) -> std::unique_ptr<SpectralDistribution> {
    if (options.released()) {
      return std::make_unique<ReleasedMixture>(place, heads, options.features, dim, is_positive, kl_schedule(options),
                                               init);
    }
    using Asked = MixtureKernelOptions::Covariance;
    const bool diagonal = options.covariance == Asked::paper ? is_positive : options.covariance == Asked::diagonal;
    const auto covariance = diagonal ? MixtureOptions::Covariance::diagonal : MixtureOptions::Covariance::full;
    return std::make_unique<GaussianMixture>(
        place, heads, options.features, dim,
        MixtureOptions{covariance, options.components, options.mixture == MixtureKernelOptions::Mixture::tied},
        kl_schedule(options), init);
  };
}

MakeDistribution fastfood(int64_t dim, FastFoodOptions::Learn learn, const FastFoodKernelOptions& options,
                          Generator& init) {
  return [=, &options, &init](Slot place) {
    return std::make_unique<FastFoodFrequencies>(place, options.features, dim,
                                                 FastFoodOptions{learn, options.sigma, options.released()},
                                                 kl_schedule(options), init);
  };
}

MakeDistribution generator(int64_t dim, const GenerativeOptions& options, Generator& init) {
  return [=, &options, &init](Slot place) {
    GeneratorOptions network{.noise_dim = options.noise, .hidden = options.hidden};
    if (options.released()) {
      if (network.noise_dim == 0) network.noise_dim = std::max<int64_t>(1, dim / 2);
      if (network.hidden.empty()) network.hidden = {2 * dim, 4 * dim};
      network.linear.init = LinearOptions::Init::xavier_weight;
    }
    return std::make_unique<GeneratedFrequencies>(place, options.features, dim, network, kl_schedule(options), init);
  };
}

}  // namespace

void describe_mixtures(Mechanisms& list) {
  const std::string kernel = "the kernel of a learnt Gaussian mixture";
  list.push_back(
      {.name = "gmm-rks",
       .year = 2022,
       .paper = "KL Eqs. 4, 5",
       .equation = "phi(x) = (cos omega x, sin omega x) / sqrt M, omega ~ sum_c N(mu_c, Sigma_c Sigma_c^T) / C",
       .approximates = kernel,
       .cost = "L M D + M D^2",
       .causal = true,
       .slices = true,
       .learns = "mu, Sigma",
       .released = released_kl(false, "two Gaussians at +-mu with one full matrix and the same noise, so M / 2 draws",
                               "s^2 (smoothing)"),
       .maker = made_by<SmoothedMixtureOptions>(
           [](Slot slot, int64_t heads, int64_t dim, const SmoothedMixtureOptions& options, Generator& init) {
             // Released: two frequencies for each of M / 2 draws.
             return sinks(slot, options, options.features / 2, options.smoothing,
                          mixture(heads, dim, false, options, init));
           })});
  list.push_back({.name = "gmm-prf",
                  .year = 2022,
                  .paper = "KL Eqs. 9, 10",
                  .equation = "phi(x) = exp(omega x - |x|^2) / sqrt M, omega ~ sum_c N(mu_c, diag sigma_c^2) / C",
                  .approximates = kernel,
                  .cost = "L M D",
                  .causal = true,
                  .slices = true,
                  .learns = "mu, sigma",
                  .released = released_kl(true, "one Gaussian, omega = exp(sigma / 2) n + mu"),
                  .maker = made_by<MixtureKernelOptions>(
                      [](Slot slot, int64_t heads, int64_t dim, const MixtureKernelOptions& options, Generator& init) {
                        return product(slot, options, kPositive, kScaled, mixture(heads, dim, true, options, init));
                      })});
}

void describe_fastfood(Mechanisms& list) {
  using Options = FastFoodKernelOptions;
  using Learn = FastFoodOptions::Learn;
  for (const bool prf : {false, true}) {
    for (const auto& [suffix, learn, learns] : {std::tuple{"", Learn::sgb, "S, G, B"}, std::tuple{"-s", Learn::s, "S"},
                                                std::tuple{"-fixed", Learn::none, ""}}) {
      list.push_back({.name = std::string(prf ? "fastfood-prf" : "fastfood-rks") + suffix,
                      .year = 2022,
                      .paper = std::string(prf ? "KL Eqs. 9, 12" : "KL Eq. 6") + (*suffix == 0 ? "" : ", D.1"),
                      .equation = std::string(prf ? "phi(x) = exp(V x - |x|^2)" : "phi(x) = (cos V x, sin V x)") +
                                  " / sqrt M, V = S H G Pi H B / (sigma sqrt P), P = D rounded up to a power of two",
                      .approximates = learn == Learn::none ? "the Gaussian kernel" : "a learnt kernel",
                      .cost = "L M log D, and L M D for V",
                      .causal = true,
                      .slices = true,
                      .learns = learns,
                      .released = released_kl(prf, "S, G, B ~ N(0, 1 / D) at first, where they learn"),
                      .maker = made_by<Options>([prf, learn = learn](Slot slot, int64_t, int64_t dim,
                                                                     const Options& options, Generator& init) {
                        const MakeDistribution frequencies = fastfood(dim, learn, options, init);
                        return prf ? product(slot, options, kPositive, kScaled, frequencies)
                                   : sinks(slot, options, options.features, 1, frequencies);
                      })});
    }
  }
}

void describe_generative(Mechanisms& list) {
  for (const bool prf : {false, true}) {
    list.push_back({.name = prf ? "generative-prf" : "generative-rks",
                    .year = 2022,
                    .paper = prf ? "KL Eqs. 9, 11" : "KL Eqs. 7, 8",
                    .equation = prf ? "phi(x) = exp(omega x - |x|^2) / sqrt M, omega = g(n), n ~ N(0, I)"
                                    : "phi(x) = (cos omega x, sin omega x) / sqrt M, omega = g(n), n ~ N(0, I)",
                    .approximates = "the kernel of a learnt distribution",
                    .cost = "L M D + M D^2",
                    .causal = true,
                    .slices = true,
                    .learns = "the generator g",
                    .released = released_kl(
                        prf, "as on Text, noise of D / 2 numbers and hidden layers of 2 D and 4 D; Glorot's weights"),
                    .maker = made_by<GenerativeOptions>(
                        [prf](Slot slot, int64_t, int64_t dim, const GenerativeOptions& options, Generator& init) {
                          const MakeDistribution frequencies = generator(dim, options, init);
                          return prf ? product(slot, options, kPositive, kScaled, frequencies)
                                     : sinks(slot, options, options.features, 1, frequencies);
                        })});
  }
}

}  // namespace bochner
