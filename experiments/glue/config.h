// The options of `glue`: a pretrained model, how it is fitted to a task, and the training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiments/common/program/options.h"
#include "experiments/glue/tasks.h"
#include "experiments/learners/mechanism_config.h"
#include "experiments/learners/optim_config.h"

namespace bochner::glue {

/// How a pretrained model is fitted to a task.
struct ModelConfig {
  std::string method = "full";
  bool from_scratch = false;
  std::string attention_blocks{};
  bool train_pooler = false;
  double dropout = -1;
  // Of the SNNK layers.
  std::string activation = "relu";
  int64_t features = 16;
  bool orthogonal = false;
  bool scale_inputs = false;
  bool damped = false;
  double ridge = -1;
  int64_t top = 6;
  // Of the other adapters.
  int64_t size = 48;
  std::string size_activation = "gelu";
  std::string targets = "query,value";
  int64_t rank = 8;
  double alpha = 8;
  MechanismConfig mechanism{};

  void fields(Fields& f);
};

struct Config {
  RunOptions run;
  std::shared_ptr<TextConfig> text = std::make_shared<TextConfig>();
  std::vector<GlueTask> tasks = glue_tasks(text);
  ModelConfig model;
  OptimConfig optim;
  double epochs = 3;
  double large_epochs = 0;
  double warmup_share = 0;
  std::string adapter{};
  std::string exported{};
  std::string to{};

  Config();
  void fields(Fields& f);
  /// Steps, warm-up and the steps between validations from the number of epochs, where they were not given themselves.
  void settle(const Fields& fields, int64_t train_rows);
  /// The method and its options from the folder --adapter, where there is one. An Error where others were given.
  void take_adapter(const Fields& fields);
};

}  // namespace bochner::glue
