#include "layers/snnk/snnk.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/fused/linear.h"
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
  return optimal_A(options.eta * options.eta * scale * scale * mean_square, inputs);
}

}  // namespace

std::vector<std::string> snnk_activations() {
  return {"relu", "sin", "cos", "gaussian", "sinc", "smooth-relu", "tanh", "released-sine", "released-cosine"};
}

bool has_universal_features(const std::string& activation) {
  constexpr std::array kUniversal = {"sin", "cos", "gaussian", "sinc", "smooth-relu"};
  return std::ranges::find(kUniversal, activation) != kUniversal.end();
}

std::unique_ptr<TwoTowerFeatures> make_features(Slot slot, int64_t inputs, const SnnkOptions& options,
                                                const Tensor& weights, Generator& init) {
  if (inputs < 1) fail("snnk: {} inputs; at least 1", inputs);
  const double scale = options.scale_inputs ? std::pow(static_cast<double>(inputs), -0.25) : 1;
  const std::string& name = options.activation;
  if (options.measure || has_universal_features(name)) {
    UniversalOptions o{.measure = options.measure ? *options.measure
                                                  : FourierMeasure::of(name == "smooth-relu" ? "relu" : name)};
    o.features = options.features;
    o.A = best_A(weights, inputs, options, scale);
    o.eta = options.eta;
    o.block = options.block;
    o.orthogonal = options.orthogonal;
    o.scale = scale;
    o.damped = options.damped;
    return std::make_unique<UniversalFeatures>(std::move(slot), inputs, std::move(o), init);
  }
  if (name == "relu") {
    return std::make_unique<ArcCosineFeatures>(std::move(slot), inputs,
                                               ArcCosineOptions{.features = options.features,
                                                                .order = options.order,
                                                                .orthogonal = options.orthogonal,
                                                                .scale = scale,
                                                                .bias = options.bias_coordinate},
                                               init);
  }
  if (name == "tanh") {
    PolynomialOptions o{.features = options.features, .scale = scale};
    return std::make_unique<PolynomialFeatures>(std::move(slot), inputs, o, init);
  }
  if (name == "released-sine" || name == "released-cosine") {
    using Map = ReleasedOptions::Map;
    return std::make_unique<ReleasedFeatures>(std::move(slot), inputs,
                                              ReleasedOptions{.map = name == "released-sine" ? Map::sine : Map::cosine,
                                                              .features = options.features,
                                                              .orthogonal = options.orthogonal,
                                                              .scale = scale},
                                              init);
  }
  std::string names;
  for (const std::string& known : snnk_activations()) names += (names.empty() ? "" : ", ") + known;
  fail(
      "snnk: there is no layer for '{}', as it has no Fourier measure here; there are {}, and any activation "
      "whose Fourier transform you give as a FourierMeasure",
      name, names);
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
