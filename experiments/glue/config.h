// The options of `glue`: a pretrained model, how it is fitted to a task, and the training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiments/glue/tasks.h"
#include "experiments/learners/adaptation/config.h"

namespace bochner::glue {

struct Config : FittingConfig {
  RunOptions run;
  std::shared_ptr<TextConfig> text = std::make_shared<TextConfig>();
  std::vector<GlueTask> tasks = glue_tasks(text);
  AdaptationConfig model;
  OptimConfig optim;
  double large_epochs = 0;

  Config();
  void fields(Fields& f);
  /// Sets steps, warm-up and the steps between validations from the number of epochs, if they were not given.
  void settle(const Fields& fields, int64_t train_rows);
};

}  // namespace bochner::glue
