#include "experiments/learners/coordinates/config.h"

namespace bochner::coordinates {

void ModelConfig::fields(Fields& f) {
  f("width", width, "units of every hidden layer").at_least(1);
  f("hidden", hidden, "number of layers of width x width, which SNNK layers can replace").at_least(0);
  f("omega", omega, "factor inside every activation").above(0);
  const size_t before = f.all().size();
  SnnkInPlaceConfig::fields(f);
  f("replace", replace, "hidden layers that SNNK replaces, counted from 0; none named: all").at_least(0);
  only_with_snnk(f, before);
}

std::vector<std::string> layer_names() { return {"plain", "snnk-sin", "snnk-cos", "snnk-relu"}; }

SirenOptions siren_options(const ModelConfig& model, const std::string& layer, const std::string& activation,
                           int64_t inputs) {
  SirenOptions options{.inputs = inputs, .width = model.width, .hidden = model.hidden, .activation = activation};
  options.omega = model.omega;
  if (layer == "plain") return options;
  options.snnk = model.snnk(layer.substr(5));
  options.snnk_layers = model.replace;
  options.snnk_start = model.start;
  return options;
}

}  // namespace bochner::coordinates
