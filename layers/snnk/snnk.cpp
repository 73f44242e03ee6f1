#include "layers/snnk/snnk.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/fused/linear.h"
#include "engine/nearest.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/mixed_precision.h"
#include "layers/snnk/arc_cosine.h"
#include "layers/snnk/polynomial.h"
#include "layers/snnk/released.h"
#include "layers/snnk/universal.h"

namespace bochner {
namespace {

/// The A for given weights: the best one for their mean square norm.
double best_A(const Tensor& weights, int64_t inputs, const SnnkOptions& options, double scale) {
  if (options.A) return *options.A;
  if (!weights.defined() || weights.size(0) == 0) return 0;
  const double mean_square = sum(square(weights.cast(DType::f64))).item() / static_cast<double>(weights.size(0));
  if (!std::isfinite(mean_square)) {
    throw WeightsOverflow(fmt::format(
        "snnk: weights {} that are to be mapped overflow: their mean square is {}; where several layers are "
        "bundled, take more features or fewer layers",
        weights.shape().str(), mean_square));
  }
  return optimal_A(options.eta * options.eta * scale * scale * mean_square, inputs);
}

using Features = std::unique_ptr<TwoTowerFeatures>;

Features arc_cosine(Slot slot, int64_t inputs, const SnnkOptions& options, double scale, Generator& init) {
  const ArcCosineOptions o{.features = options.features,
                           .order = options.order,
                           .orthogonal = options.orthogonal,
                           .scale = scale,
                           .bias = options.bias_coordinate};
  return std::make_unique<ArcCosineFeatures>(std::move(slot), inputs, o, init);
}

Features polynomial(Slot slot, int64_t inputs, const SnnkOptions& options, double scale, Generator& init) {
  const PolynomialOptions o{.features = options.features, .scale = scale};
  return std::make_unique<PolynomialFeatures>(std::move(slot), inputs, o, init);
}

template <ReleasedOptions::Map map>
Features released(Slot slot, int64_t inputs, const SnnkOptions& options, double scale, Generator& init) {
  const ReleasedOptions o{.map = map, .features = options.features, .orthogonal = options.orthogonal, .scale = scale};
  return std::make_unique<ReleasedFeatures>(std::move(slot), inputs, o, init);
}

Features universal(Slot slot, int64_t inputs, const SnnkOptions& options, double scale, FourierMeasure measure,
                   const Tensor& weights, Generator& init) {
  UniversalOptions o{.measure = std::move(measure)};
  o.features = options.features;
  o.A = best_A(weights, inputs, options, scale);
  o.eta = options.eta;
  o.block = options.block;
  o.orthogonal = options.orthogonal;
  o.scale = scale;
  o.damped = options.damped;
  return std::make_unique<UniversalFeatures>(std::move(slot), inputs, std::move(o), init);
}

/// What SNNK layers can stand for: by universal features of a measure, or by features of its own.
struct Kind {
  const char* name;
  FourierMeasure (*measure)();
  Features (*features)(Slot, int64_t inputs, const SnnkOptions&, double scale, Generator&);
};

const std::array kKinds = {
    Kind{"relu", nullptr, arc_cosine},
    Kind{"sin", [] { return FourierMeasure::sine(); }, nullptr},
    Kind{"cos", [] { return FourierMeasure::cosine(); }, nullptr},
    Kind{"gaussian", [] { return FourierMeasure::gaussian(); }, nullptr},
    Kind{"sinc", [] { return FourierMeasure::sinc(); }, nullptr},
    Kind{"smooth-relu", [] { return FourierMeasure::relu(); }, nullptr},
    Kind{"tanh", nullptr, polynomial},
    Kind{"released-sine", nullptr, released<ReleasedOptions::Map::sine>},
    Kind{"released-cosine", nullptr, released<ReleasedOptions::Map::cosine>},
};

/// Null if there is none.
const Kind* kind_named(const std::string& name) {
  const auto found = std::ranges::find(kKinds, name, &Kind::name);
  return found == kKinds.end() ? nullptr : found;
}

}  // namespace

std::vector<std::string> snnk_activations() {
  std::vector<std::string> names;
  for (const Kind& one : kKinds) names.emplace_back(one.name);
  return names;
}

bool has_universal_features(const std::string& activation) {
  const Kind* const found = kind_named(activation);
  return found != nullptr && found->measure != nullptr;
}

std::unique_ptr<TwoTowerFeatures> make_features(Slot slot, int64_t inputs, const SnnkOptions& options,
                                                const Tensor& weights, Generator& init,
                                                std::optional<int64_t> layer_inputs) {
  if (inputs < 1) fail("snnk: {} inputs; at least 1", inputs);
  const double scale = options.scale_inputs ? std::pow(static_cast<double>(layer_inputs.value_or(inputs)), -0.25) : 1;
  if (options.measure) return universal(std::move(slot), inputs, options, scale, *options.measure, weights, init);
  const Kind* const kind = kind_named(options.activation);
  if (kind == nullptr) {
    std::vector<std::string> names;
    for (const Kind& known : kKinds) names.emplace_back(known.name);
    fail(
        "snnk: there is no layer for '{}', as it has no Fourier measure here; there are {}, and any activation "
        "whose Fourier transform you give as a FourierMeasure",
        options.activation, listed(names));
  }
  if (kind->measure == nullptr) return kind->features(std::move(slot), inputs, options, scale, init);
  return universal(std::move(slot), inputs, options, scale, kind->measure(), weights, init);
}

Snnk::Snnk(Slot slot, int64_t inputs, int64_t outputs, const SnnkOptions& options, Generator& init)
    : Snnk(std::move(slot), Linear({}, inputs, outputs, init), options, init) {}

Snnk::Snnk(Slot slot, const Linear& linear, const SnnkOptions& options, Generator& init)
    : Module(std::move(slot)),
      features_(make_features(sub("features"), linear.inputs(), options, linear.weight.value, init)),
      weight(parameter("weight",
                       features_->weights(linear.weight.value, linear.bias == nullptr ? Tensor() : linear.bias->value)
                           .cast(linear.weight.value.dtype()))) {}

Snnk Snnk::from(const Linear& linear, std::string activation, int64_t features, Generator& init) {
  return {Slot{}, linear, SnnkOptions{.activation = std::move(activation), .features = features}, init};
}

Variable Snnk::forward(const Variable& x) const {
  const Scope scope(name());
  return as_type_of(x, linear(features_->forward(as_computed(x)), {weight}));
}

}  // namespace bochner
