// The attentions of PERF, and linear attention, which has a feature map without frequencies.
#include "layers/attention/kernel_family.h"
#include "layers/spectral/orthogonal.h"

namespace bochner {
namespace {

using kernel_family::kScaled;
using kernel_family::product;
using kernel_family::SumOptions;
using MakeDistribution = KernelAttention::MakeDistribution;
using Kind = FeatureMap::Kind;
using Function = FeatureMap::Function;
using Norms = OrthogonalOptions::Norms;

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

/// The stabiliser of positive features (PERF A.3). As in its authors' code, it is added to shifted exponentials, but
/// here the shift is the largest exponent omega x - |x|^2 / 2, where theirs is the largest omega x. So for a query, eps
/// is relative to its largest exponential, and for keys, to the largest among those that are seen, however long the
/// vectors are. Relative to these, theirs is e^(|x|^2 / 2) times as large, which matters for long vectors. Derivatives
/// treat the largest exponential as a constant; eps = 0 makes them exact. Without renormalise, nothing is shifted, and
/// eps is added as it is.
struct Stabiliser {
  double eps = 1e-6;
  void options(OptionList& list) {
    list("eps", eps,
         "share of the largest exponential added to each feature of performer, -hyp and -reg; derivatives hold the "
         "largest constant; without renormalise it is added as it is")
        .at_least(0);
  }
};

struct GeneralisedOptions : Joined<PerformerOptions, VersionOption> {
  double kernel_eps = 1e-3;  ///< (PERF A.4), where f is an exponential, too
  void options(OptionList& list) {
    Joined::options(list);
    for (const char* of_omega : {"features", "redraw", "redraw-in-evaluation", "coupling"}) {
      list.at(of_omega).counts_where([this] { return !released(); });
    }
    list("kernel-eps", kernel_eps, "added to generalised features f(omega x)").at_least(0);
  }
};

/// The options of performer itself.
struct PlainOptions : Joined<PerformerOptions, Stabiliser, VersionOption> {
  void options(OptionList& list) {
    Joined::options(list);
    for (const char* of_omega : {"features", "coupling"})
      list.at(of_omega).counts_where([this] { return !released(); });
    for (const char* fixed : {"redraw", "redraw-in-evaluation", "eps"}) {
      list.at(fixed).counts_where([this] { return as == Version::paper; });
    }
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
  using Plain = PlainOptions;
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
      "q . k / D, as inputs are scaled twice; eps 1e-4; drawn once; padded keys are 0 and count in the sums of "
      "weights: "
      "those of the batch, where SKY's code pads all to the longest";
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

}  // namespace bochner
