// The options of `lra`: the data, the model and the training of a sequence classifier.
#pragma once

#include <vector>

#include "experiments/learners/sequence/config.h"
#include "experiments/lra/tasks.h"

namespace bochner::lra {

struct Config {
  RunOptions run;
  std::vector<ArenaTask> tasks = arena_tasks();
  sequence::ModelConfig model;
  OptimConfig optim;

  Config();
  void fields(Fields& f);
};

}  // namespace bochner::lra
