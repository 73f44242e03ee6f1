// The common main part of the programs that classify rows of numbers (uci, mnist); they differ in tasks and defaults.
#pragma once

#include "datasets/tables/tabular.h"
#include "experiments/learners/rows/config.h"
#include "experiments/learners/rows/sweep.h"
#include "experiments/learners/task.h"

namespace bochner::rows {

using RowTask = TaskEntry<TableSplits>;

/// The config of a program: its tasks, the model and the training. It must not be moved, since tasks may refer to it.
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
  /// The data of the chosen task. An Error names a missing file and where to get it.
  TableSplits load(const Messages& messages) const { return task_named(tasks, run.task).load(run, messages); }
};

/// Trains one network for each seed, or the networks of the sweep.
void train(Config& config, Session& session);

}  // namespace bochner::rows
