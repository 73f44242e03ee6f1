// What all programs that classify rows of numbers do (uci, mnist); they differ in their tasks and defaults.
#pragma once

#include "datasets/tables/tabular.h"
#include "experiments/learners/rows/config.h"
#include "experiments/learners/rows/sweep.h"
#include "experiments/learners/task.h"

namespace bochner::rows {

using RowTask = TaskEntry<TableSplits>;

/// Of a program: its tasks, the model and the training. It stays where it is, as tasks may refer to it.
struct Config {
  RunOptions run;
  std::vector<RowTask> tasks;
  ModelConfig model;
  SnnkOptimConfig optim;
  SweepConfig sweep;

  Config() = default;
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;
  void fields(Fields& f);
  /// The data of the task that was chosen. An Error names the file that is missing and where it is to be had.
  TableSplits load(const Messages& messages) const { return task_named(tasks, run.task).load(run, messages); }
};

/// Trains one network a seed, or those that the sweep asks for.
void train(Config& config, Session& session);

}  // namespace bochner::rows
