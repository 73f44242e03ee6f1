#include "experiments/learners/coordinates/config.h"

namespace bochner::coordinates {

void ModelConfig::fields(Fields& f) {
  f("width", width, "units of every hidden layer").at_least(1);
  f("hidden", hidden, "number of layers of width x width, which SNNK layers can replace").at_least(0);
  f("omega", omega, "factor inside every activation").above(0);
  f("features", features, "m of each SNNK layer, the size of Phi; even for universal features, two for each projection")
      .at_least(1);
  f("orthogonal", orthogonal, "use orthogonal projections in SNNK layers");
  f("scale-inputs", scale_inputs, "divide inputs and initial weights of an SNNK layer by inputs^(1/4)");
  f("eta", eta, "factor by which universal features multiply weights and divide inputs").above(0);
  f("replace", replace, "hidden layers that SNNK replaces, counted from 0; none named: all").at_least(0);
  f("start", start, "initial SNNK weights: Psi of a plain layer's weights, or spread as a SIREN's")
      .one_of({"psi", "spread"});
  f("damped", damped,
    "universal features without exp(t^2 |x|^2 / 2), which overflows for wide inputs; this is not SNNK Eq. 8");
}

std::vector<std::string> layer_names() { return {"plain", "snnk-sin", "snnk-cos", "snnk-relu"}; }

SirenOptions siren_options(const ModelConfig& model, const std::string& layer, const std::string& activation,
                           int64_t inputs) {
  SirenOptions options{.inputs = inputs, .width = model.width, .hidden = model.hidden, .activation = activation};
  options.omega = model.omega;
  if (layer == "plain") return options;
  options.snnk = SnnkOptions{.activation = layer.substr(5), .features = model.features};
  options.snnk->orthogonal = model.orthogonal;
  options.snnk->scale_inputs = model.scale_inputs;
  options.snnk->eta = model.eta;
  options.snnk->damped = model.damped;
  options.snnk_layers = model.replace;
  options.snnk_start = model.start;
  return options;
}

}  // namespace bochner::coordinates
