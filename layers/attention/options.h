// The options of mechanisms. Each mechanism has its own struct, which lists its options (engine/option.h). Options that
// several mechanisms have are described here once, and their structs derive from them: struct Options :
// Joined<FeatureCount, VersionOption>.
#pragma once

#include <fmt/core.h>

#include <any>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/option.h"
#include "layers/spectral/distribution.h"

namespace bochner {

/// Several structs in one, with the options of all.
template <class... Parts>
struct Joined : Parts... {
  void options(OptionList& list) { (Parts::options(list), ...); }
};

/// The largest size that a file from outside may ask for.
inline constexpr double kMostOfASize = 1 << 20;

/// M, the papers' number of random features: the number of frequencies, which are the rows of Omega. For a mixture it
/// counts those of all Gaussians together, whereas KL counts those of one (Eq. 5, Table 1). The map phi has F = 2 M
/// rows if it makes a pair of features from each frequency. For other mechanisms M is the number of landmarks or of
/// projected positions.
struct FeatureCount {
  int64_t features = 128;
  void options(OptionList& list) {
    list("features", features, "M: number of random features (rows of Omega), landmarks, or projected positions")
        .at_least(1)
        .at_most(kMostOfASize);
  }
};

/// When random features are redrawn. KL redraws them every 100 steps, and its released code also for each batch of an
/// evaluation; PERF redraws them "periodically".
struct Redraws {
  int64_t redraw = 100;
  bool redraw_in_evaluation = false;
  RedrawSchedule schedule() const { return {redraw, redraw_in_evaluation}; }
  void options(OptionList& list) {
    list("redraw", redraw, "training steps between draws of random features; 0: never").at_least(0);
    list("redraw-in-evaluation", redraw_in_evaluation,
         "also draw new random features for every batch of an evaluation");
  }
};

/// Which of them a mechanism follows where its paper and the released code differ. `skyformer` is the variant that
/// SKY's code ran alongside Skyformer; a mechanism that SKY's code lacks then follows its paper.
enum class Version : unsigned char { paper, released, skyformer };
struct VersionOption {
  Version as = Version::paper;
  bool released() const { return as == Version::released; }
  bool skyformer() const { return as == Version::skyformer; }
  void options(OptionList& list) {
    list("as", as, {{"paper", Version::paper}, {"released", Version::released}, {"skyformer", Version::skyformer}},
         "which to follow where the paper and released code differ; skyformer: the variant that SKY's code ran");
  }
};
/// For mechanisms whose released variant is the one in SKY's code, so that both names mean the same.
struct SkyVersionOption : VersionOption {
  bool released() const { return as != Version::paper; }
};

struct WeightDropout {
  double dropout = 0;
  void options(OptionList& list) {
    list("dropout", dropout, "dropout of attention weights, in mechanisms that have them").at_least(0).below(1);
  }
};

struct FusedKernels {
  bool streaming = true;
  void options(OptionList& list) {
    list("streaming", streaming, "use the fused kernels; no: the plain composition that they equal");
  }
};

struct BlockSize {
  int64_t block = 64;
  void options(OptionList& list) {
    list("block", block,
         "number of tokens in a block, chunk, stride or half window; of sparse at least the square root of the length, "
         "unless released")
        .at_least(1)
        .at_most(kMostOfASize);
  }
};

/// The length for parameters that belong to positions. If it is 0, a model sets it:
/// MechanismOptions::set_default_length.
struct LongestSequence {
  int64_t length = 0;
  void options(OptionList& list) {
    list("length", length, "longest sequence, for parameters that belong to positions; 0: as long as the input")
        .at_least(0);
  }
};

struct Iterations {
  int64_t iterations = 6;
  void options(OptionList& list) {
    list("iterations", iterations, "iterations of the Nystrom methods' inverse, or of sinkhorn's normalisation")
        .at_least(0)
        .at_most(1000);
  }
};

/// How the Nystrom methods invert the matrix of their landmarks (gaussian.h).
struct LandmarkInverse : Iterations {
  bool exact_inverse = false;  ///< the pseudo-inverse of SKY Eq. 5; the iteration damps small eigenvalues
  void options(OptionList& list) {
    Iterations::options(list);
    list.at("iterations").counts_where([this] { return !exact_inverse; });
    list("exact-inverse", exact_inverse, "use a pseudo-inverse instead of the iteration");
  }
};

/// A value for the option of that name: {"features", 64}, {"streaming", false}, {"coupling", "givens"}.
struct Setting {
  std::string name;
  std::string text;
  template <class T>
  Setting(std::string option, const T& value) : name(std::move(option)), text(fmt::format("{}", value)) {}
};
using Settings = std::vector<Setting>;

/// A mechanism of the registry by its name, with the values of its options.
///
///   MechanismOptions performer("performer", {{"features", 64}, {"redraw", 0}});
class MechanismOptions {
 public:
  /// The mechanism of that name with its default options, changed by the settings. An Error names the nearest mechanism
  /// or option if a name is unknown, or the option, the value and the range.
  MechanismOptions(const std::string& mechanism, const Settings& settings = {});
  MechanismOptions(const char* mechanism, const Settings& settings = {})
      : MechanismOptions(std::string(mechanism), settings) {}
  /// For the registry: values of a struct that lists its options.
  template <class Options>
  static MechanismOptions of(std::string mechanism, Options values) {
    return {std::move(mechanism), std::any(std::move(values)),
            [](std::any& any, OptionList& list) { std::any_cast<Options&>(any).options(list); }};
  }

  const std::string& name() const { return name_; }
  /// The options, which refer to the values in this object: it must outlive the list and must not move.
  OptionList list();
  std::vector<std::string> names() const;
  bool has(std::string_view option) const;
  /// The value, as text; an Error if the mechanism has no such option.
  std::string text(std::string_view option) const;

  /// An Error if the mechanism has no such option or the value is out of range.
  MechanismOptions& set(const Setting& setting);
  template <class T>
  MechanismOptions& set(std::string option, const T& value) {
    return set(Setting(std::move(option), value));
  }
  /// Sets the options that the mechanism has, and ignores the others.
  MechanismOptions& set_known(const Settings& settings);
  /// Sets the length of the longest sequence if the mechanism has this option and it is still 0.
  MechanismOptions& set_default_length(int64_t length);

  /// The struct of the mechanism's options.
  template <class Options>
  const Options& values() const {
    return std::any_cast<const Options&>(values_);
  }

 private:
  using List = void (*)(std::any& values, OptionList& list);
  MechanismOptions(std::string mechanism, std::any values, List describe)
      : name_(std::move(mechanism)), values_(std::move(values)), describe_(describe) {}

  std::string name_;
  std::any values_;
  List describe_;
};

}  // namespace bochner
