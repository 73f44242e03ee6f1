// The options of `lra`: the data, the model and the training of a sequence classifier.
#pragma once

#include <vector>

#include "experiments/learners/sequence/config.h"
#include "experiments/lra/analysis.h"
#include "experiments/lra/tasks.h"

namespace bochner::lra {

/// What a run learns on the data of its task.
enum class Goal : unsigned char {
  classes,        ///< the task
  masked_tokens,  ///< to predict hidden tokens; the task can then be learnt from these weights (--init)
  contrastive     ///< for pairs, to find the second text among those of a batch; likewise
};

struct Config {
  RunOptions run;
  bool random_data = false;
  Goal learn = Goal::classes;
  double mask_share = 0.15;
  double temperature = 0.1;
  std::vector<std::string> table{};
  std::string format = "markdown";
  std::string record{};
  std::vector<ArenaTask> tasks = arena_tasks();
  sequence::ModelConfig model;
  OptimConfig optim;
  std::string analyse{};
  AnalysisConfig analysis;

  Config();
  void fields(Fields& f);
};

/// The task that the options name. With random data it has no baselines, as these belong to the real data.
ArenaTask task_of(const Config& config);
/// The data of the task, or random data in place of them.
TaskData data_of(const Config& config, const ArenaTask& task, Log& log);
/// The metric by which the best model of a run is chosen.
std::string best_by(const Config& config, const ArenaTask& task);
/// What --learn asks for, on this data.
Problem problem_of(const Config& config, const TaskData& data, const ArenaTask& task);

}  // namespace bochner::lra
