// The options of networks that map coordinates to fields (siren, qpnn). `--attention` names the hidden layers.
#pragma once

#include "experiments/learners/optim_config.h"
#include "experiments/learners/snnk_config.h"
#include "layers/models/siren.h"

namespace bochner::coordinates {

struct ModelConfig : SnnkInPlaceConfig {
  int64_t width = 256;
  int64_t hidden = 3;  ///< (width, width) layers
  double omega = 30;
  std::vector<int64_t> replace = {};

  ModelConfig() {
    features = 64;
    scale_inputs = true;
    eta = 3;
  }
  void fields(Fields& f);
  /// An Error if the network cannot have this layer.
  void check(const std::string& layer) const;
};

/// `plain`, and the SNNK layers that may replace it: `snnk-sin`, `snnk-cos`, `snnk-relu`.
std::vector<std::string> layer_names();

SirenOptions siren_options(const ModelConfig& model, const std::string& layer, SirenOptions::Activation activation,
                           int64_t inputs);

}  // namespace bochner::coordinates
