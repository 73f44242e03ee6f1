#include "experiments/learners/snnk_config.h"

namespace bochner {

void only_with_snnk(Fields& f, size_t before) {
  const auto stands_for = [&layer = f.at("attention")](const auto& holds) {
    return [&layer, holds] {
      constexpr std::string_view kSnnk = "snnk-";
      const std::string name = layer.text();
      return name.starts_with(kSnnk) && holds(name.substr(kSnnk.size()));
    };
  };
  f.only_behind(before, "with an SNNK layer, --attention=snnk-...",
                stands_for([](const std::string&) { return true; }));
  for (size_t i = before; i < f.all().size(); ++i) {
    Field& field = f.all()[i];
    const std::string name = field.name().substr(field.name().rfind('.') + 1);
    if (name == "eta" || name == "damped") {
      field.only("with universal features, such as --attention=snnk-sin", stands_for(has_universal_features));
    } else if (name == "bias") {
      field.only("with --attention=snnk-relu",
                 stands_for([](const std::string& activation) { return activation == "relu"; }));
    }
  }
}

void SnnkConfig::fields(Fields& f) {
  f("features", features, "m of SNNK layers, the size of Phi; even for universal features, two for each projection")
      .at_least(1);
  f("orthogonal", orthogonal, "orthogonal projections in SNNK layers");
  f("scale-inputs", scale_inputs,
    "divide inputs and initial weights of SNNK layers by inputs^(1/4), as SNNK H.2; SNNK poolers always do");
  f("damped", damped,
    "universal features without exp(t^2 |x|^2 / 2), which overflows for wide inputs; this is not SNNK Eq. 8");
}

SnnkOptions SnnkConfig::snnk(const std::string& activation) const {
  return {.activation = activation,
          .features = features,
          .orthogonal = orthogonal,
          .scale_inputs = scale_inputs,
          .damped = damped};
}

void SnnkInPlaceConfig::fields(Fields& f) {
  SnnkConfig::fields(f);
  f("eta", eta, "factor by which universal features multiply weights and divide inputs").above(0);
  f("start", start,
    "initial SNNK weights: Psi of a plain layer's weights, or spread as those of a plain layer with as many inputs")
      .one_of({"psi", "spread"});
}

SnnkOptions SnnkInPlaceConfig::snnk(const std::string& activation) const {
  SnnkOptions options = SnnkConfig::snnk(activation);
  options.eta = eta;
  return options;
}

}  // namespace bochner
