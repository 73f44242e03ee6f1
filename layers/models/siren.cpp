#include "layers/models/siren.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace bochner {
namespace {

const SirenOptions& checked(const SirenOptions& options) {
  if (options.inputs < 1 || options.outputs < 1 || options.width < 1 || options.hidden < 0) {
    fail("siren: {} inputs, {} outputs, width {}, {} hidden layers; sizes must be at least 1", options.inputs,
         options.outputs, options.width, options.hidden);
  }
  if (!(options.omega > 0)) fail("siren: omega {} must be positive", options.omega);
  for (const int64_t layer : options.snnk_layers) {
    if (layer < 0 || layer >= options.hidden) {
      fail("siren: an SNNK layer in place of hidden layer {} of {}; they count from 0", layer, options.hidden);
    }
  }
  return options;
}

void fill_uniform(Parameter& weight, double bound, Generator& init) {
  weight.value.copy_(uniform(weight.shape(), init) * (2 * bound) - bound);
}

bool stands_in(const SirenOptions& options, int64_t layer) {
  const std::vector<int64_t>& layers = options.snnk_layers;
  return options.snnk && (layers.empty() || std::find(layers.begin(), layers.end(), layer) != layers.end());
}

/// Weights from U(+-bound) whose outputs have variance 1/2, where the mean square of the features is estimated from a
/// sample.
void spread(Snnk& layer, Generator& init) {
  constexpr int64_t kRows = 256;
  const NoTape inference;
  const Tensor features = layer.features().forward(sin(normal({kRows, layer.inputs()}, init))).value();
  const double square = sum(features * features).item() / static_cast<double>(kRows);  // E |Phi(x)|^2
  fill_uniform(layer.weight, std::sqrt(3 * 0.5 / square), init);
}

}  // namespace

Siren::Siren(Slot slot, const SirenOptions& options, Generator& init)
    : Module(std::move(slot)),
      options_(checked(options)),
      first_(sub("first"), options.inputs, options.width, init),
      hidden_([&] {
        std::deque<Layer> layers;
        for (int64_t i = 0; i < options.hidden; ++i) layers.push_back(hidden_layer(i, options, init));
        return layers;
      }()),
      last_(sub("last"), options.width, options.outputs, init) {
  if (options.activation != SirenOptions::Activation::sin) return;
  fill_uniform(first_.weight, 1 / static_cast<double>(options.inputs), init);
  fill_uniform(last_.weight, std::sqrt(6.0 / static_cast<double>(options.width)) / options.omega, init);
}

Siren::Layer Siren::hidden_layer(int64_t i, const SirenOptions& options, Generator& init) {
  const Slot place = sub(fmt::format("hidden{}", i));
  const bool snnk = stands_in(options, i);
  Layer layer;
  layer.linear = std::make_unique<Linear>(snnk ? Slot{} : place, options.width, options.width, init);
  if (options.activation == SirenOptions::Activation::sin) {
    fill_uniform(layer.linear->weight, std::sqrt(6.0 / static_cast<double>(options.width)) / options.omega, init);
  }
  if (!snnk) return layer;
  // omega is multiplied into the weights from which the features are made
  Linear& scaled = *layer.linear;
  scaled.weight.value.copy_(scaled.weight.value * options.omega);
  scaled.bias->value.copy_(scaled.bias->value * options.omega);
  layer.snnk = std::make_unique<Snnk>(place, scaled, *options.snnk, init);
  if (options.snnk_start == SnnkStart::spread) spread(*layer.snnk, init);
  layer.linear.reset();
  return layer;
}

std::vector<Parameter*> Siren::snnk_weights() const {
  std::vector<Parameter*> weights;
  for (const Layer& layer : hidden_) {
    if (layer.snnk) weights.push_back(&layer.snnk->weight);
  }
  return weights;
}

Variable Siren::activate(const Variable& z) const {
  const Variable angle = options_.omega == 1 ? z : z * options_.omega;
  return options_.activation == SirenOptions::Activation::sin ? sin(angle) : tanh(angle);
}

Variable Siren::forward(const Variable& x) const {
  Variable h = activate(first_.forward(x));
  for (const Layer& layer : hidden_) h = layer.snnk ? layer.snnk->forward(h) : activate(layer.linear->forward(h));
  return last_.forward(h);
}

FieldDerivatives field_derivatives(const std::function<Variable(const Variable&)>& field, const Tensor& x) {
  if (x.rank() != 2) fail("field derivatives: x {} must be (n, inputs)", x.str());
  Tape tape;
  const Variable at = tape.watch(x);
  const Variable y = field(at);
  if (y.size() != x.size(0))
    fail("field derivatives: the field gives {} for x {}; one value a row", y.value().str(), x.str());
  FieldDerivatives result;
  result.value = y.value().reshape({x.size(0)}).clone();
  // Rows are independent, so the gradient of the sum holds the gradient of each row.
  const Variable gradient = tape.gradients(sum(y), {at}, true)[0];
  result.gradient = gradient.value().clone();
  result.laplacian = Tensor::zeros({x.size(0)}, x.dtype(), x.device());
  for (int64_t axis = 0; axis < x.size(1); ++axis) {
    const Variable along = sum(slice(gradient, 1, axis, axis + 1));
    if (!along.tracked()) continue;  // linear along this axis
    const Variable second = tape.gradients(along, {at}, true)[0];
    result.laplacian = result.laplacian + second.value().slice(1, axis, axis + 1).reshape({x.size(0)});
  }
  return result;
}

}  // namespace bochner
