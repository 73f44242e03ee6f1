// A sequence classifier in training: the model, its optimizer, its noise and its place in the data.
#pragma once

#include <memory>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "datasets/loader.h"
#include "datasets/task.h"
#include "engine/step_graph.h"
#include "experiments/common/run/trainer.h"
#include "experiments/learners/sequence/config.h"
#include "layers/models/encoder.h"

namespace bochner::sequence {

class Learner : public Trainable {
 public:
  Learner(const RunOptions& run, const EncoderOptions& model, const OptimConfig& optim, const TaskData& data);

  StepResult step(int64_t step) override;
  /// Without dropout; the noise of random features comes from a generator of its own, the same each time.
  Metrics evaluate(Split split) override;

  void save_model(State& state) override;
  void load_model(const State& state) override;
  void save_training(State& state) override;
  void load_training(const State& state) override;

  int64_t parameters() override { return parameter_count_; }
  Metrics extra() override;
  /// What the most frequent class reaches on the same test set.
  std::vector<Baseline> baselines() override;
  Blame blame(int64_t step) override;

 protected:
  /// The first examples of a set as one batch, on the model's device.
  Batch first(const std::shared_ptr<const Dataset>& dataset, int64_t count) const;
  /// The noise of evaluations, the same each time.
  Generator evaluation_noise() const;
  const TaskData& data() const { return data_; }
  const SequenceClassifier& model() const { return model_; }

 private:
  LoaderOptions loader_options(bool shuffle) const;
  /// Forward, backward and the optimizer's step, whose numbers are prepared.
  void update(const Batch& batch, int64_t step);

  TaskData data_;
  OptimConfig optim_;
  Device device_;
  uint64_t seed_;
  int64_t batch_size_;
  SequenceClassifier model_;
  Generator noise_;
  std::vector<Parameter*> parameters_;
  int64_t parameter_count_;
  AdamW optimizer_;
  Schedule schedule_;
  Loader loader_;
  Batch batch_;  ///< of the latest step
  BatchPlace place_;
  Tensor loss_, correct_;  ///< of the latest step, f64
  Tensor loss_sum_;        ///< of all steps, f64: nothing moves once it is not finite
  bool replays_;           ///< steps on a card, where shapes come back
  StepGraph graph_;
};

}  // namespace bochner::sequence
