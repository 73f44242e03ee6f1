// The options of classifiers of rows of numbers (uci, mnist): an MLP whose last hidden layer may be an SNNK layer, and
// its training. `--attention` names the kind of that layer, since runs are compared by it.
#pragma once

#include <string>
#include <vector>

#include "datasets/tables/tabular.h"
#include "experiments/common/config/options.h"
#include "experiments/learners/optim_config.h"
#include "experiments/learners/snnk_config.h"
#include "layers/models/mlp.h"

namespace bochner::rows {

struct ModelConfig : SnnkInPlaceConfig {
  std::vector<int64_t> first = {512};  ///< hidden units of the plain layers, one or more
  int64_t hidden = 512;  ///< units of the last hidden layer, which an SNNK layer may replace: d_param of SNNK H.5
  double dropout = 0.1;
  bool bias = false;

  void fields(Fields& f);
};

/// `linear`, and `snnk-NAME` for each of snnk_activations().
std::vector<std::string> layer_names();

/// The network for `layer`, one of layer_names().
MlpOptions mlp_options(const ModelConfig& model, const std::string& layer, int64_t inputs, int64_t classes);

/// Warnings: a batch larger than the training set, classes with only a few rows.
std::vector<std::string> doubts(const RunOptions& run, const TableSplits& data);

}  // namespace bochner::rows
