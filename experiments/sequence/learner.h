// A sequence classifier in training: the model, its optimizer, its noise and its place in the data.
#pragma once

#include <memory>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "datasets/loader.h"
#include "datasets/task.h"
#include "engine/step_graph.h"
#include "experiments/common/trainer.h"
#include "experiments/lra/config.h"
#include "layers/models/encoder.h"

namespace bochner::lra {

class Learner final : public Trainable {
 public:
  Learner(const Config& config, const TaskData& data);

  StepResult step(int64_t step) override;
  /// Without dropout; the noise of random features comes from a generator of its own, the same each time.
  Metrics evaluate(Split split) override;

  void save_model(State& state) override;
  void load_model(const State& state) override;
  void save_training(State& state) override;
  void load_training(const State& state) override;

  int64_t parameters() override { return parameter_count_; }
  Metrics extra() override;
  /// What guessing reaches on the same test set.
  std::vector<Baseline> baselines() override;
  Blame blame(int64_t step) override;

 private:
  /// Forward, backward and the optimizer's step, whose numbers are prepared.
  void update(const Batch& batch);

  const Config& config_;
  TaskData data_;
  Device device_;
  Generator noise_;
  Generator init_;
  mutable SequenceClassifier model_;
  std::vector<Parameter*> parameters_;
  int64_t parameter_count_;
  AdamW optimizer_;
  Schedule schedule_;
  Loader loader_;
  Batch batch_;  ///< of the latest step
  BatchPlace place_;
  Tensor loss_, correct_;  ///< of the latest step, f64
  Tensor loss_sum_;        ///< of all steps, f64: nothing moves once it is not finite
  StepGraph graph_;
};

}  // namespace bochner::lra
