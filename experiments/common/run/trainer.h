// The training loop of every experiment: a fixed schedule of logs, evaluations and checkpoints, the best model by
// validation, the test at the end, and checkpoints from which a run that was stopped continues bit for bit.
//
// It knows nothing about models: it drives a Trainable.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/io/data_log.h"
#include "experiments/common/program/log.h"
#include "experiments/common/run/metrics.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/common/run/state.h"

namespace bochner {

/// What one training step tells, in tensors of one element: where they lie on a card, the trainer reads them from time
/// to time and steps wait for nothing. `count` is the number of samples. Of `judged` answers `correct` were
/// right; a task without accuracy leaves both as they are.
struct StepResult {
  Tensor loss;
  Tensor correct{};
  int64_t count = 0;
  int64_t judged = 0;
};

/// What made a loss that is not finite.
struct Blame {
  std::string layer{};              ///< the first whose output is not finite, if known
  std::vector<int64_t> examples{};  ///< of the batch
};

/// What is reached on the test set without learning, such as by the majority class.
struct Baseline {
  std::string name;
  Metrics test;
};

enum class Split : unsigned char { valid, test };

/// Is told how many examples of how many are measured.
using EvaluationWatch = std::function<void(int64_t, int64_t)>;

/// What a model says of one example.
struct Prediction {
  std::string answer;             ///< the class or the number
  std::vector<double> numbers{};  ///< such as the probability of each class
};

/// A model with its optimizer, data and generators.
class Trainable {
 public:
  virtual ~Trainable() = default;
  Trainable() = default;
  Trainable(const Trainable&) = delete;
  Trainable& operator=(const Trainable&) = delete;

  /// Makes update number `step`, counted from 0. Once a loss is not finite, neither this nor a later step may move what
  /// is trained.
  virtual StepResult step(int64_t step) = 0;
  /// Measures the model on a split. Must leave everything that save_training() saves as it is, also where evaluated()
  /// throws.
  virtual Metrics evaluate(Split split) = 0;
  /// The files of answers that --predict writes, each to the examples of one set; none where the model answers no
  /// questions.
  virtual std::vector<std::string> answer_files() { return {}; }
  /// Says what the model answers to each example of the set of one of these files, in order.
  virtual void predict(const std::string& /*file*/, const std::function<void(const Prediction&)>&) {}

  /// The parameters and buffers, under the names of Hugging Face where the model has one.
  virtual void save_model(State& state) = 0;
  virtual void load_model(const State& state) = 0;
  /// All else that later steps depend on: optimizer, generators, position in the data. Names must not clash with those
  /// of the model, nor begin with `run.`.
  virtual void save_training(State& state) = 0;
  virtual void load_training(const State& state) = 0;

  /// Number of trained numbers.
  virtual int64_t parameters() = 0;
  /// More to log at this step, such as the learning rate.
  virtual Metrics extra() { return {}; }
  /// Numbers that belong beside this model's, from the same data.
  virtual std::vector<Baseline> baselines() { return {}; }
  /// The names of the model's inputs, where they have some, as columns of a table do.
  virtual std::vector<std::string> inputs() { return {}; }
  /// What must stand beside every number of this run, such as that its test set is a part of the published one.
  virtual std::vector<std::string> remarks() { return {}; }
  /// Seconds that steps waited for their batches; 0 where no batches are made beside them.
  virtual double waited() { return 0; }
  /// Called once where the loss of `step`, the latest one or one shortly before it, is not finite.
  virtual Blame blame(int64_t) { return {}; }

  /// What evaluated() calls.
  void watch_evaluation(EvaluationWatch watch) { watch_ = std::move(watch); }

 protected:
  /// For evaluate() to call after each batch, with the examples measured so far: shows how far it is, and throws
  /// where the program is asked to stop.
  void evaluated(int64_t examples, int64_t of) const {
    if (watch_) watch_(examples, of);
  }

 private:
  EvaluationWatch watch_;
};

struct TrainPlan {
  int64_t steps = 0;
  int64_t log_every = 50;
  int64_t evaluate_every = 500;
  /// 0: only where it evaluates.
  int64_t checkpoint_every = 0;
  /// Also where so much time has passed since the latest checkpoint; 0: never.
  double checkpoint_minutes = 0;
  /// The validation metric that chooses the best model.
  std::string best_by = "accuracy";
  bool higher_is_better = true;
  /// Stop after this many evaluations without a better one; 0: never.
  int64_t patience = 0;
};

struct TrainResult {
  int64_t steps = 0;  ///< that were made
  int64_t best_step = 0;
  Metrics valid, test;            ///< of the best checkpoint
  Metrics valid_last, test_last;  ///< of the last one
  std::vector<Baseline> baselines;
  std::vector<std::string> inputs;   ///< names, where they have some
  std::vector<std::string> remarks;  ///< to stand beside every number
  int64_t parameters = 0;
  int64_t peak_memory_bytes = 0;
  double train_seconds = 0;  ///< in steps alone, over all sessions of the run
  int64_t samples = 0;       ///< that these steps saw

  double steps_per_second() const { return per_second(steps); }
  double samples_per_second() const { return per_second(samples); }

 private:
  double per_second(int64_t count) const { return train_seconds > 0 ? static_cast<double>(count) / train_seconds : 0; }
};

/// What makes a run the one it is; its checkpoints hold it (stored_run.h).
struct RunIdentity {
  std::string id;
  std::string config;            ///< text of config.ini
  std::string config_before{};   ///< that of before the run is made longer; empty where it is not
  std::vector<DataRead> data{};  ///< what it learns from
  std::string init = "null";     ///< JSON: where its first weights came from, if from another run
};

class Trainer {
 public:
  /// `go_on` is the command that continues an interrupted run.
  Trainer(Trainable& model, TrainPlan plan, const RunFolder& folder, RunIdentity identity, Log& log, Device device,
          std::string go_on);

  /// Trains to the end, from checkpoint-last where the folder holds one. Interrupted is thrown after a checkpoint,
  /// RunFailure where the loss, or what would be saved, is not finite.
  TrainResult run();

 private:
  struct Best {
    int64_t step = -1;
    int64_t since = 0;  ///< evaluations since
    Metrics valid;
  };

  bool is_multiple(int64_t interval) const { return interval > 0 && step_ % interval == 0; }
  void read_results();
  void restore(const State& state);
  void require_best() const;
  FileMark mark_of(const State& state, const std::string& file) const;
  void warn_of_schedule(const State& state) const;
  void save_last(const MetricsFile& metrics, const class EventsFile& events);
  void save_best();
  void log_training(MetricsFile& metrics, class EventsFile& events);
  Metrics measure(Split split, class Progress& progress);
  /// On the validation set; nothing where the program is asked to stop meanwhile.
  std::optional<Metrics> measure_unless_stopped(class Progress& progress);
  void take_evaluation(const Metrics& valid, MetricsFile& metrics, class EventsFile& events);
  bool is_better(const Metrics& valid) const;
  bool is_done() const;
  [[noreturn]] void fail_not_finite(int64_t step, double loss);
  void require_finite();
  std::string which(const Blame& blame);
  TrainResult finish(class Progress& progress);

  Trainable& model_;
  TrainPlan plan_;
  const RunFolder& folder_;
  RunIdentity identity_;
  Log& log_;
  Device device_;
  std::string go_on_;
  std::deque<StepResult> unread_;  ///< of the steps before step_

  // The state of the run, all of it in checkpoint-last.
  int64_t step_ = 0;
  double train_seconds_ = 0;
  int64_t samples_ = 0;
  double loss_sum_ = 0;  ///< since the latest log
  int64_t loss_count_ = 0;
  int64_t correct_ = 0;
  int64_t judged_ = 0;  ///< samples of which these were right
  Best best_;
  Metrics valid_last_;
  bool unevaluated_ = false;  ///< it was stopped while it measured at this step
};

}  // namespace bochner
