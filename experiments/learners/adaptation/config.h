// The options of fitting a pretrained model to a task: --model.method and so on.
#pragma once

#include <string>

#include "experiments/common/config/options.h"
#include "experiments/learners/mechanism_config.h"
#include "experiments/learners/optim_config.h"
#include "experiments/learners/pretrained.h"
#include "experiments/learners/snnk_config.h"

namespace bochner {

struct AdaptationConfig : SnnkConfig {
  std::string method = "full";
  bool from_scratch = false;
  std::string attention_blocks{};
  bool train_pooler = false;
  bool new_pooler = false;
  double dropout = -1;
  std::string activation = "relu";  ///< of the SNNK layers
  double ridge = -1;
  int64_t top = 6;
  // For the other adapters.
  int64_t size = 48;
  std::string size_activation = "gelu";
  std::string targets = "query,value";
  int64_t rank = 8;
  double alpha = 8;
  MechanismConfig mechanism{};

  AdaptationConfig() {
    features = 16;
    damped = false;
  }
  /// In a group `model`, after the program's field `adapter`.
  void fields(Fields& f);
  /// The names in `targets`.
  std::vector<std::string> target_names() const;
  /// Takes the method and its options from an adapter's folder; empty: none. An Error if others were asked for, or if a
  /// preset belongs to another method; other sizes in a preset are overridden.
  void take(const std::string& adapter, const Fields& fields);
  /// An Error if --model.top asks for more blocks than there are.
  void check_top(int64_t layers) const;
  /// Gives the model the dropout of these options. Options is BertOptions or VitOptions.
  template <class Options>
  void set_dropout(Options& options) const {
    if (dropout < 0) return;
    options.dropout = dropout;
    options.attention_dropout = dropout;
  }

 private:
  void only_by_method(Fields& f);
};

/// How long a model is fitted, what it begins with, and the folder that it is written to.
struct FittingConfig : ExportConfig {
  double epochs = 3;
  std::string adapter{};

  /// `beside`: what an exported folder holds in addition to config.json and model.safetensors.
  void fields(Fields& f, const std::string& beside);
  /// The steps and those between validations from so many epochs, where they were not given themselves.
  void settle_length(const Fields& fields, RunOptions& run, OptimConfig& optim, int64_t train_examples,
                     double times) const;
};

}  // namespace bochner
