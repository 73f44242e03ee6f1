#include "experiments/learners/coordinates/config.h"

namespace bochner::coordinates {
namespace {

constexpr const char* kPlain = "plain";

std::string activation_of(const std::string& layer) { return layer.substr(std::string_view("snnk-").size()); }

}  // namespace

void ModelConfig::fields(Fields& f) {
  f("width", width, "units of every hidden layer").at_least(1);
  f("hidden", hidden, "number of layers of width x width, which SNNK layers can replace").at_least(0);
  f("omega", omega, "factor inside every activation").above(0);
  const size_t before = f.all().size();
  SnnkInPlaceConfig::fields(f);
  f("replace", replace, "hidden layers that SNNK replaces, counted from 0; none named: all").at_least(0);
  only_with_snnk(f, before);
  f.then([this](Fields& all) { check(all.at("attention").text()); });
}

void ModelConfig::check(const std::string& layer) const {
  if (layer == kPlain) return;
  for (const int64_t one : replace) {
    if (one >= hidden) fail("--model.replace: there is no hidden layer {} of {}; they count from 0", one, hidden);
  }
  if (hidden == 0) fail("--attention={}: --model.hidden=0 has no hidden layer for it to replace", layer);
  if (has_universal_features(activation_of(layer)) && features % 2 != 0)
    fail("--model.features={}: features of {} come in pairs; take an even number", features, layer);
}

std::vector<std::string> layer_names() { return {kPlain, "snnk-sin", "snnk-cos", "snnk-relu"}; }

SirenOptions siren_options(const ModelConfig& model, const std::string& layer, SirenOptions::Activation activation,
                           int64_t inputs) {
  SirenOptions options{.inputs = inputs, .width = model.width, .hidden = model.hidden, .activation = activation};
  options.omega = model.omega;
  if (layer == kPlain) return options;
  options.snnk = model.snnk(activation_of(layer));
  options.snnk_layers = model.replace;
  options.snnk_start = model.start;
  return options;
}

}  // namespace bochner::coordinates
