// A classifier of rows of numbers in training.
#pragma once

#include <memory>
#include <vector>

#include "datasets/tables/tabular.h"
#include "experiments/common/run/trainer.h"
#include "experiments/learners/rows/optimizer.h"

namespace bochner::classifier {

class Learner final : public Trainable {
 public:
  Learner(const RunOptions& run, const ModelConfig& model, const OptimConfig& optim, const TableSplits& data);

  StepResult step(int64_t step) override;
  /// loss (cross-entropy), accuracy, for two classes auc; of the test also what the network costs: flops of a row and
  /// bytes, and after bundling flops-bundled, bytes-bundled and accuracy-bundled.
  Metrics evaluate(Split split) override;

  void save_model(State& state) override;
  void load_model(const State& state) override;
  void save_training(State& state) override;
  void load_training(const State& state) override;

  int64_t parameters() override { return parameter_count_; }
  Metrics extra() override;
  Blame blame(int64_t) override;
  std::vector<Baseline> baselines() override;
  std::vector<std::string> inputs() override { return data_.columns; }

 private:
  const TableSplits& data_;
  Generator noise_;
  mutable Mlp model_;
  bool has_snnk_;
  std::vector<Parameter*> parameters_;
  int64_t parameter_count_;
  NetworkOptimizer optimizer_;
  Schedule schedule_;
  TableLoader loader_;
  TableBatch batch_;  ///< of the latest step
};

/// The share of pairs of one row of each class where the row of class 1 has the larger score; equal scores count half.
/// 1/2 where a class has no row, NaN where a score is.
double area_under_curve(const std::vector<double>& scores, const std::vector<int64_t>& labels);

}  // namespace bochner::classifier
