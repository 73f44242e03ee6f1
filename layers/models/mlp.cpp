#include "layers/models/mlp.h"

#include "autograd/fused/dropout.h"
#include "autograd/ops/unary.h"

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

int64_t bytes_of(const Linear& linear) {
  const int64_t values = linear.weight.value.size() + (linear.bias == nullptr ? 0 : linear.bias->value.size());
  return values * static_cast<int64_t>(size_of(linear.weight.value.dtype()));
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
  Variable h = x;
  for (const Layer& layer : hidden_) {
    h = layer.snnk ? layer.snnk->forward(h) : relu(layer.linear->forward(h));
    if (context.training && options_.dropout > 0) h = dropout(h, options_.dropout, context.generator);
  }
  return output_.forward(h);
}

size_t Mlp::bundled_from() const {
  if (hidden_.empty() || !hidden_.back().snnk) {
    fail("mlp: nothing to bundle: the last hidden layer is no SNNK layer");
  }
  return hidden_.size() - 1;
}

std::unique_ptr<Bundle> Mlp::bundle() const {
  const Snnk* snnk = hidden_[bundled_from()].snnk.get();
  return std::make_unique<Bundle>(Slot{}, std::vector<const Module*>{snnk, &output_});
}

Variable Mlp::forward_bundled(const Variable& x, const Bundle& tail) const {
  Variable h = x;
  for (size_t i = 0; i < bundled_from(); ++i) h = relu(hidden_[i].linear->forward(h));
  return tail.forward(h);
}

int64_t Mlp::flops() const {
  int64_t total = 2 * output_.weight.value.size();
  for (const Layer& layer : hidden_) {
    total += layer.snnk ? layer.snnk->features().flops() + 2 * layer.snnk->weight.value.size()
                        : 2 * layer.linear->weight.value.size();
  }
  return total;
}

int64_t Mlp::flops_bundled(const Bundle& tail) const {
  int64_t total = tail.flops();
  for (size_t i = 0; i < bundled_from(); ++i) total += 2 * hidden_[i].linear->weight.value.size();
  return total;
}

int64_t Mlp::bytes_bundled(Bundle& tail) const {
  int64_t total = tail.bytes();
  for (size_t i = 0; i < bundled_from(); ++i) total += bytes_of(*hidden_[i].linear);
  return total;
}

}  // namespace bochner
