#include "layers/models/mlp.h"

#include <cmath>

#include "autograd/fused/dropout.h"
#include "autograd/ops/unary.h"
#include "engine/ops/binary.h"
#include "layers/mixed_precision.h"

namespace bochner {
namespace {

const MlpOptions& checked(const MlpOptions& options) {
  if (options.inputs < 1 || options.outputs < 1) {
    fail("mlp: {} inputs and {} outputs; at least 1 of each", options.inputs, options.outputs);
  }
  const auto layers = static_cast<int>(options.hidden.size());
  if (options.snnk && (options.snnk_layer < 0 || options.snnk_layer >= layers)) {
    fail("mlp: an SNNK layer in place of hidden layer {} of {}; they count from 0", options.snnk_layer, layers);
  }
  return options;
}

void spread(Parameter& weight, Generator& init) {
  const double bound = 1 / std::sqrt(static_cast<double>(weight.shape()[1]));
  weight.value.copy_(uniform(weight.shape(), init) * (2 * bound) - bound);
}

}  // namespace

Mlp::Mlp(Slot slot, const MlpOptions& options, Generator& init)
    : Module(std::move(slot)),
      options_(checked(options)),
      hidden_([&] {
        std::deque<Layer> layers;
        int64_t inputs = options.inputs;
        for (size_t i = 0; i < options.hidden.size(); ++i) {
          const Slot place = sub(fmt::format("hidden{}", i));
          const bool snnk = options.snnk && options.snnk_layer == static_cast<int>(i);
          Layer layer;
          if (snnk) {
            layer.snnk = std::make_unique<Snnk>(place, inputs, options.hidden[i], *options.snnk, init);
            if (options.snnk_start == SnnkStart::spread) spread(layer.snnk->weight, init);
          } else {
            layer.linear = std::make_unique<Linear>(place, inputs, options.hidden[i], init);
          }
          layers.push_back(std::move(layer));
          inputs = options.hidden[i];
        }
        return layers;
      }()),
      output_(sub("output"), options.hidden.empty() ? options.inputs : options.hidden.back(), options.outputs, init) {}

Variable Mlp::forward(const Variable& x, Context& context) const {
  Variable h = as_stored(x);
  for (const Layer& layer : hidden_) {
    if (layer.linear) {
      h = layer.linear->forward(h, {.relu = true, .dropout = options_.dropout}, context);
      continue;
    }
    h = layer.snnk->forward(h);
    if (context.training && options_.dropout > 0) h = dropout(h, options_.dropout, context.generator);
  }
  return output_.forward(as_computed(h));
}

std::unique_ptr<Bundle> Mlp::bundle() const {
  if (!ends_in_snnk()) fail("mlp: nothing to bundle: the last hidden layer is no SNNK layer");
  return std::make_unique<Bundle>(Slot{}, std::vector<const Module*>{hidden_.back().snnk.get(), &output_});
}

std::unique_ptr<Bundle> Mlp::bundle(const SnnkOptions& options, Generator& init) const {
  if (hidden_.empty() || ends_in_snnk()) fail("mlp: there is no plain hidden layer last to make an SNNK layer from");
  const Snnk snnk(Slot{}, *hidden_.back().linear, options, init);
  return std::make_unique<Bundle>(Slot{}, std::vector<const Module*>{&snnk, &output_});
}

std::vector<Parameter*> Mlp::snnk_weights() const {
  std::vector<Parameter*> weights;
  for (const Layer& layer : hidden_) {
    if (layer.snnk) weights.push_back(&layer.snnk->weight);
  }
  return weights;
}

Variable Mlp::before_bundle(const Variable& x) const {
  Variable h = as_stored(x);
  for (size_t i = 0; i + 1 < hidden_.size(); ++i) {
    h = hidden_[i].snnk ? hidden_[i].snnk->forward(h) : relu(hidden_[i].linear->forward(h));
  }
  return as_computed(h);
}

Variable Mlp::forward_bundled(const Variable& x, const Bundle& tail) const { return tail.forward(before_bundle(x)); }

int64_t Mlp::Layer::flops() const { return snnk ? snnk->flops() : 2 * linear->weight.value.size(); }

int64_t Mlp::flops() const {
  int64_t total = 2 * output_.weight.value.size();
  for (const Layer& layer : hidden_) total += layer.flops();
  return total;
}

int64_t Mlp::flops_bundled(const Bundle& tail) const {
  int64_t total = tail.flops();
  for (size_t i = 0; i + 1 < hidden_.size(); ++i) total += hidden_[i].flops();
  return total;
}

int64_t Mlp::bytes_bundled(Bundle& tail) const {
  int64_t total = tail.bytes();
  for (size_t i = 0; i + 1 < hidden_.size(); ++i) total += hidden_[i].bytes();
  return total;
}

}  // namespace bochner
