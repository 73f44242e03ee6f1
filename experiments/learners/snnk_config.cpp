#include "experiments/learners/snnk_config.h"

namespace bochner {

std::function<bool()> snnk_layer(Fields& f, std::function<bool(const std::string& activation)> holds) {
  return [&layer = f.at("attention"), holds = std::move(holds)] {
    constexpr std::string_view kSnnk = "snnk-";
    const std::string name = layer.text();
    return name.starts_with(kSnnk) && (!holds || holds(name.substr(kSnnk.size())));
  };
}

void only_with_snnk(Fields& f, size_t before) {
  f.only_behind(before, "with an SNNK layer, --attention=snnk-...", snnk_layer(f));
}

void SnnkConfig::fields(Fields& f) {
  f("features", features, "m, the size of Phi in SNNK layers; even for universal features, which come in pairs")
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
  const std::string condition = "with universal features, such as --attention=snnk-sin";
  SnnkConfig::fields(f);
  f.of_part("orthogonal").only("with another SNNK layer than snnk-tanh", snnk_layer(f, [](const std::string& name) {
                                 return name != "tanh";
                               }));
  f.of_part("damped").only(condition, snnk_layer(f, has_universal_features));
  f("eta", eta, "factor by which universal features multiply weights and divide inputs")
      .above(0)
      .only(condition, snnk_layer(f, has_universal_features));
  f("start", start, {{"psi", SnnkStart::psi}, {"spread", SnnkStart::spread}},
    "initial SNNK weights: Psi of a plain layer's weights, or spread as those of a plain layer with as many inputs");
}

SnnkOptions SnnkInPlaceConfig::snnk(const std::string& activation) const {
  SnnkOptions options = SnnkConfig::snnk(activation);
  options.eta = eta;
  return options;
}

}  // namespace bochner
