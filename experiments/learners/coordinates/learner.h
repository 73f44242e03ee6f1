// A network from coordinates to a field in training, on a fixed set of points.
#pragma once

#include <memory>

#include "experiments/common/run/trainer.h"
#include "experiments/learners/coordinates/config.h"
#include "experiments/learners/rows/optimizer.h"

namespace bochner::fields {

class FieldLearner : public Trainable {
 public:
  /// `points` (n, inputs). A batch is `run.batch` of them, drawn anew each step, or all where there are no more.
  FieldLearner(const RunOptions& run, const SirenOptions& model, const classifier::OptimConfig& optim, Tensor points);

  StepResult step(int64_t step) override;

  void save_model(State& state) override;
  void load_model(const State& state) override;
  void save_training(State& state) override;
  void load_training(const State& state) override;

  int64_t parameters() override { return model_.parameter_count(); }
  Metrics extra() override;
  Blame blame(int64_t) override;

  /// The field at x (n, inputs): (n, 1)
  Variable field(const Variable& x) const { return model_.forward(x); }
  /// The field alone, and with derivatives, taken in pieces of rows.
  Tensor values(const Tensor& x) const;
  FieldDerivatives derivatives(const Tensor& x) const;

 protected:
  /// Of the field y (n, 1) at the points of these numbers, i64 (n).
  virtual Variable loss(const Variable& y, const Tensor& rows) const = 0;

 private:
  Tensor points_;
  Generator draws_;
  Generator init_;
  int64_t batch_;
  mutable Siren model_;
  std::vector<Parameter*> parameters_;
  classifier::NetworkOptimizer optimizer_;
  Schedule schedule_;
  Tensor rows_;  ///< of the latest step
};

}  // namespace bochner::fields
