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

using Made = std::unique_ptr<Mechanism>;
using MakeDistribution = KernelAttention::MakeDistribution;
using Kind = FeatureMap::Kind;
using Function = FeatureMap::Function;
using Norms = OrthogonalOptions::Norms;

constexpr KernelAttention::Inputs kScaled{.power = 0.25};

/// Options that all of them have.
struct SumOptions : FusedKernels {
  bool renormalise = true;  ///< without: PERF §D.4
  /// Added to sums of weights, as in KL's released code. Sums of exponentials are those of the shifted ones, and
  /// derivatives treat the shift as a constant; 0, as all papers write it, makes them exact. A query without keys gets
  /// zeros.
  double denominator_eps = 0;
  void options(OptionList& list) {
    list("renormalise", renormalise, "divide by sums of weights");
    list("denominator-eps", denominator_eps,
         "added to sums of weights; where those are of exponentials, after these were divided by the largest")
        .at_least(0);
    FusedKernels::options(list);
  }
};

/// The attention of that map.
Made product(Slot slot, const SumOptions& options, const FeatureMap& map, const KernelAttention::Inputs& inputs,
             const MakeDistribution& frequencies) {
  KernelAttentionSpec spec{.map = map, .renormalise = options.renormalise, .denominator_eps = options.denominator_eps};
  // KL as released adds 1e-6, to sums whose features are over the constant.
  if (map.constant != 0) spec.denominator_eps += 1e-6 * map.constant * map.constant;
  return std::make_unique<KernelAttention>(slot, spec, inputs, frequencies, options.streaming);
}

// ---- PERF

/// How rows of Omega depend on one another: not at all, or orthogonal by one of three constructions (PERF §B.2).
enum class Coupling : unsigned char { independent, orthogonal, hadamard, givens };

struct PerformerOptions : Joined<FeatureCount, Redraws, SumOptions> {
  Coupling coupling = Coupling::orthogonal;
  void options(OptionList& list) {
    Joined::options(list);
    list("coupling", coupling,
         {{"independent", Coupling::independent},
          {"orthogonal", Coupling::orthogonal},
          {"hadamard", Coupling::hadamard},
          {"givens", Coupling::givens}},
         "how rows of Omega depend on one another");
  }
};

/// The stabiliser of positive features (PERF A.3). As in its authors' code it is added to exponentials that are
/// shifted, but here by the largest exponent omega x - |x|^2 / 2, where theirs takes the largest omega x: for a query
/// eps is a share of its largest exponential, for keys of the largest among those that are seen, however long they are.
/// Theirs is e^(|x|^2 / 2) times as much of it, which counts where vectors are long. Derivatives treat the largest
/// exponential as a constant; eps = 0 makes them exact.
struct Stabiliser {
  double eps = 1e-6;
  void options(OptionList& list) {
    list("eps", eps,
         "share of the largest exponential added to each feature of performer, -hyp and -reg; derivatives hold the "
         "largest constant")
        .at_least(0);
  }
};

struct GeneralisedOptions : Joined<PerformerOptions, VersionOption> {
  double kernel_eps = 1e-3;  ///< (PERF A.4), where f is an exponential, too
  void options(OptionList& list) {
    Joined::options(list);
    list("kernel-eps", kernel_eps, "added to generalised features f(omega x)").at_least(0);
  }
};

MakeDistribution gaussian(const PerformerOptions& options, int64_t dim, Norms norms, Generator& init) {
  using Matrix = OrthogonalOptions::Matrix;
  return [&options, &init, dim, norms](Slot place) -> std::unique_ptr<SpectralDistribution> {
    if (options.coupling == Coupling::independent) {
      if (norms == Norms::sqrt_dim) {
        return std::make_unique<SphericalFrequencies>(place, options.features, dim, options.schedule(), init);
      }
      return std::make_unique<GaussianFrequencies>(place, options.features, dim, options.schedule(), init);
    }
    const Matrix matrix = options.coupling == Coupling::hadamard ? Matrix::hadamard
                          : options.coupling == Coupling::givens ? Matrix::givens
                                                                 : Matrix::haar;
    return std::make_unique<OrthogonalFrequencies>(place, options.features, dim, OrthogonalOptions{norms, matrix},
                                                   options.schedule(), init);
  };
}

/// Options of the type `Options` with `eps` for a map that has one.
template <class Options>
MechanismMaker performer_of(const FeatureMap& map, Norms norms) {
  return made_by<Options>([map, norms](Slot slot, int64_t, int64_t dim, const Options& options, Generator& init) {
    FeatureMap chosen = map;
    if constexpr (std::is_base_of_v<Stabiliser, Options>) chosen.eps = options.eps;
    return product(slot, options, chosen, kScaled, gaussian(options, dim, norms, init));
  });
}

/// What `m` means in their equations.
const char* const kLargest = ", m the largest exponential of the query, or of all keys it may see";

/// A mechanism that approximates the softmax kernel.
MechanismInfo performer(const std::string& name, const std::string& source, const std::string& equation,
                        MechanismMaker maker) {
  return {.name = name,
          .year = 2021,
          .paper = source,
          .equation = equation,
          .approximates = "softmax",
          .cost = "L M D",
          .causal = true,
          .slices = true,
          .maker = std::move(maker)};
}

/// Generalised attention (PERF Eq. 5, A.4): phi(x) = (f(Omega x) + eps) / sqrt M. As released, phi(x) = f(x) + eps
/// without Omega.
MechanismInfo generalised(const std::string& f, Function function) {
  return {.name = "performer-" + f,
          .year = 2021,
          .paper = "PERF Eq. 5, A.4",
          .equation = "phi(x) = (" + f + "(omega x) + kernel-eps) / sqrt M, orthogonal omega ~ N(0, I)",
          .cost = "L M D",
          .causal = true,
          .slices = true,
          .released = "phi(x) = f(x) + kernel-eps, without Omega",
          .maker = made_by<GeneralisedOptions>(
              [function](Slot slot, int64_t, int64_t dim, const GeneralisedOptions& options, Generator& init) {
                FeatureMap map = {.kind = Kind::elementwise, .function = function, .eps = options.kernel_eps};
                // e^u overflows: it is shifted by its maximum, and its eps with it.
                if (function == Function::exp) {
                  map = {.kind = Kind::positive, .norm_factor = 0, .eps = options.kernel_eps, .absolute_eps = true};
                }
                return product(slot, options, map, {},
                               options.released() ? MakeDistribution() : gaussian(options, dim, Norms::chi, init));
              })};
}

// ---- KL

using KlOptions = Joined<FeatureCount, Redraws, SumOptions, VersionOption>;

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
    list("components", components, "Gaussians of the mixture of gmm-*").at_least(1);
    list("mixture", mixture, {{"free", Mixture::free}, {"tied", Mixture::tied}},
         "Gaussians of gmm-*; tied: two with the same Sigma at mu and -mu, as in KL's experiments");
    list("covariance", covariance,
         {{"paper", Covariance::paper}, {"diagonal", Covariance::diagonal}, {"full", Covariance::full}},
         "covariances of gmm-*; paper, as in KL: full for gmm-rks and diagonal for gmm-prf");
  }
};

struct FastFoodKernelOptions : KlOptions {
  double sigma = 1;  ///< frequencies are N(0, 1 / sigma^2) at first (KL Eq. 6)
  void options(OptionList& list) {
    KlOptions::options(list);
    list("sigma", sigma, "initial bandwidth of fastfood-*").above(0);
  }
};

/// What the released code does otherwise: for every mechanism of KL, and for random kitchen sinks.
std::string released_kl(bool is_positive, const std::string& more) {
  return std::string("draws at every forward, in evaluation too; ") +
         (is_positive ? "" : "one more feature adds the mean of 1 to the kernel; ") + more;
}

/// KL as released draws at every forward pass, in evaluation too (`redraw=1` in its code), unless redraw is 0.
RedrawSchedule kl_schedule(const KlOptions& options) {
  return options.released() && options.redraw > 0 ? RedrawSchedule{1, true, true} : options.schedule();
}

/// Random kitchen sinks (KL Eq. 3). As released, one more feature adds 1 to the kernel, the mean over `draws`.
FeatureMap sinks(const KlOptions& options, int64_t draws) {
  const double one = std::sqrt(static_cast<double>(draws));
  return {.kind = Kind::trigonometric, .eps = 0, .constant = options.released() ? one : 0};
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

MakeDistribution generator(int64_t dim, const KlOptions& options, Generator& init) {
  return [=, &options, &init](Slot place) {
    GeneratorOptions network;
    if (options.released()) {  // the widths of the Text task
      network = {std::max<int64_t>(1, dim / 2), {2 * dim, 4 * dim}, {.init = LinearOptions::Init::xavier}};
    }
    return std::make_unique<GeneratedFrequencies>(place, options.features, dim, network, kl_schedule(options), init);
  };
}

}  // namespace

void describe_linear_elu(Mechanisms& list) {
  using Options = Joined<SumOptions, VersionOption>;
  list.push_back({.name = "linear-elu",
                  .year = 2020,
                  .paper = "Katharopoulos et al.",
                  .equation = "phi(x) = elu(x) + 1",
                  .cost = "L D^2",
                  .causal = true,
                  .slices = true,
                  .released = "padded keys count (LRA)",
                  .maker = made_by<Options>([](Slot slot, int64_t, int64_t, const Options& options, Generator&) {
                    const FeatureMap map{.kind = Kind::elementwise, .function = Function::elu_plus_one, .eps = 0};
                    return product(slot, options, map, {.sees_padding = options.released()}, nullptr);
                  })});
}

void describe_performers(Mechanisms& list) {
  using Positive = Joined<PerformerOptions, Stabiliser>;
  using Plain = Joined<PerformerOptions, Stabiliser, VersionOption>;
  const FeatureMap positive_map{.kind = Kind::positive, .norm_factor = 0.5};
  MechanismInfo plain = performer(
      "performer", "PERF Eq. 4, Lemma 1",
      std::string("phi(x) = (exp(omega x - |x|^2 / 2) + eps m) / sqrt M, orthogonal omega ~ N(0, I)") + kLargest,
      made_by<Plain>([positive_map](Slot slot, int64_t, int64_t dim, const Plain& options, Generator& init) {
        if (options.released()) {
          const FeatureMap map{.kind = Kind::elementwise, .function = Function::relu, .eps = 1e-3};
          return product(slot, options, map, {.sees_padding = true}, nullptr);
        }
        Plain chosen = options;
        KernelAttention::Inputs inputs = kScaled;
        if (options.skyformer()) {
          chosen.eps = 1e-4;
          chosen.redraw = 0;
          chosen.redraw_in_evaluation = false;
          inputs = {.power = 0.5, .zeros_padding = true};
        }
        FeatureMap map = positive_map;
        map.eps = chosen.eps;
        return product(slot, chosen, map, inputs, gaussian(chosen, dim, Norms::chi, init));
      }));
  plain.released =
      "LRA (on ListOps it had the paper's, with M = 2): phi(x) = relu(x) + 0.001, without Omega or a scale; "
      "padded keys count";
  plain.skyformer =
      "q . k / D, as inputs are scaled twice; eps 1e-4; drawn once; padded keys are 0 and count in the sums of weights";
  list.push_back(std::move(plain));
  list.push_back(
      performer("performer-trig", "PERF Eqs. 5, 6", "phi(x) = exp(|x|^2 / 2) (cos omega x, sin omega x) / sqrt M",
                performer_of<PerformerOptions>({.kind = Kind::softmax_trigonometric, .eps = 0}, Norms::chi)));
  list.push_back(
      performer("performer-hyp", "PERF Lemma 1",
                std::string("phi(x) = (exp(-|x|^2 / 2) (exp(omega x), exp(-omega x)) + eps m) / sqrt 2M") + kLargest,
                performer_of<Positive>({.kind = Kind::hyperbolic, .norm_factor = 0.5}, Norms::chi)));
  MechanismInfo regularised =
      performer("performer-reg", "PERF §2.3 (SMREG)",
                std::string("phi(x) = (exp(sqrt D omega x / |omega| - |x|^2 / 2) + eps m) / sqrt M") + kLargest,
                performer_of<Positive>(positive_map, Norms::sqrt_dim));
  regularised.approximates = "the regularised softmax kernel";
  list.push_back(std::move(regularised));
  for (const auto& [name, function] : kFeatureFunctions) {
    if (function == Function::elu_plus_one) continue;  // linear-elu
    list.push_back(generalised(name, function));
  }
}

void describe_mixtures(Mechanisms& list) {
  using Options = MixtureKernelOptions;
  const std::string kernel = "the kernel of a learnt Gaussian mixture";
  list.push_back(
      {.name = "gmm-rks",
       .year = 2022,
       .paper = "KL Eqs. 4, 5",
       .equation = "phi(x) = (cos omega x, sin omega x) / sqrt M, omega ~ sum_c N(mu_c, Sigma_c) / C",
       .approximates = kernel,
       .cost = "L M D + M D^2",
       .causal = true,
       .slices = true,
       .learns = "mu, Sigma",
       .released = released_kl(false, "two Gaussians at +-mu with one full matrix and the same noise"),
       .maker = made_by<Options>([](Slot slot, int64_t heads, int64_t dim, const Options& options, Generator& init) {
         // Released: two frequencies for each of M / 2 draws.
         return product(slot, options, sinks(options, options.features / 2), kScaled,
                        mixture(heads, dim, false, options, init));
       })});
  list.push_back(
      {.name = "gmm-prf",
       .year = 2022,
       .paper = "KL Eqs. 9, 10",
       .equation = "phi(x) = exp(omega x - |x|^2) / sqrt M, omega ~ sum_c N(mu_c, diag sigma_c^2) / C",
       .approximates = kernel,
       .cost = "L M D",
       .causal = true,
       .slices = true,
       .learns = "mu, sigma",
       .released = released_kl(true, "one Gaussian, omega = exp(sigma / 2) n + mu"),
       .maker = made_by<Options>([](Slot slot, int64_t heads, int64_t dim, const Options& options, Generator& init) {
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
                      .equation = prf ? "phi(x) = exp(V x - |x|^2) / sqrt M, V = S H G Pi H B / (sigma sqrt D)"
                                      : "phi(x) = (cos V x, sin V x) / sqrt M, V = S H G Pi H B / (sigma sqrt D)",
                      .approximates = learn == Learn::none ? "the Gaussian kernel" : "a learnt kernel",
                      .cost = "L M log D, and L M D for V",
                      .causal = true,
                      .slices = true,
                      .learns = learns,
                      .released = released_kl(prf, "S, G, B ~ N(0, 1 / D) at first, where they learn"),
                      .maker = made_by<Options>([prf, learn = learn](Slot slot, int64_t, int64_t dim,
                                                                     const Options& options, Generator& init) {
                        return product(slot, options, prf ? kPositive : sinks(options, options.features), kScaled,
                                       fastfood(dim, learn, options, init));
                      })});
    }
  }
}

void describe_generative(Mechanisms& list) {
  for (const bool prf : {false, true}) {
    list.push_back(
        {.name = prf ? "generative-prf" : "generative-rks",
         .year = 2022,
         .paper = prf ? "KL Eqs. 9, 11" : "KL Eqs. 7, 8",
         .equation = prf ? "phi(x) = exp(omega x - |x|^2) / sqrt M, omega = g(n), n ~ N(0, I)"
                         : "phi(x) = (cos omega x, sin omega x) / sqrt M, omega = g(n), n ~ N(0, I)",
         .approximates = "the kernel of a learnt distribution",
         .cost = "L M D + M D^2",
         .causal = true,
         .slices = true,
         .learns = "the generator g",
         .released = released_kl(prf, "noise of D / 2 numbers, hidden layers of 2 D and 4 D"),
         .maker = made_by<KlOptions>([prf](Slot slot, int64_t, int64_t dim, const KlOptions& options, Generator& init) {
           return product(slot, options, prf ? kPositive : sinks(options, options.features), kScaled,
                          generator(dim, options, init));
         })});
  }
}

}  // namespace bochner
