// Classification of rows of numbers as a Problem for the Learner: an MLP, one of whose layers may be an SNNK layer.
#pragma once

#include "datasets/tables/tabular.h"
#include "experiments/learners/learner.h"
#include "experiments/learners/rows/config.h"
#include "experiments/learners/task.h"

namespace bochner::rows {

/// Batches of a TableLoader: `x` (n, columns) and `labels` (n).
class RowFeed final : public Feed {
 public:
  RowFeed(const TableSplit& split, int64_t batch, uint64_t seed, bool shuffle)
      : loader_(split, batch, seed, shuffle), rows_(split.rows()) {}
  Examples next() override;
  void go_to(int64_t step) override;
  int64_t steps_per_epoch() const override { return loader_.steps_per_epoch(); }
  int64_t examples() const override { return rows_; }

 private:
  TableLoader loader_;
  int64_t rows_;
};

/// A Problem on data that outlive it, with the task's metrics. On the test set it adds the costs of the network: flops
/// per row and bytes, and after bundling flops-bundled, bytes-bundled and accuracy-bundled. The baselines are the
/// majority class and those of the task.
Problem classification(const RunOptions& run, const ModelConfig& model, const SnnkOptimConfig& optim, TableSplits& data,
                       const TaskEntry<TableSplits>& task);

/// Standardises rows as they were for the model of the checkpoint. An Error if their columns or classes have other
/// names.
void recall_columns(const State& state, TableSplits& data);

}  // namespace bochner::rows
