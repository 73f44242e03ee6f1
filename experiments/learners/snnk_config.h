// The options of SNNK layers (layers/snnk/snnk.h) as fields of an experiment's config.
#pragma once

#include <functional>
#include <string>

#include "experiments/common/config/fields.h"
#include "layers/snnk/snnk.h"

namespace bochner {

/// For every program with such layers. Each program sets its own defaults.
struct SnnkConfig {
  int64_t features = 32;
  bool orthogonal = false;
  bool scale_inputs = false;
  bool damped = true;

  void fields(Fields& f);
  /// An SNNK layer in place of this activation.
  SnnkOptions snnk(const std::string& activation) const;
};

/// Where --attention names the layer: whether it is an SNNK layer for whose activation `holds` is true.
std::function<bool()> snnk_layer(Fields& f, std::function<bool(const std::string& activation)> holds = {});

/// The fields after the first `before` count only if --attention names an SNNK layer.
void only_with_snnk(Fields& f, size_t before);

/// For networks that have such layers in place of plain ones.
struct SnnkInPlaceConfig : SnnkConfig {
  double eta = 1;
  SnnkStart start = SnnkStart::psi;

  void fields(Fields& f);
  SnnkOptions snnk(const std::string& activation) const;
};

}  // namespace bochner
