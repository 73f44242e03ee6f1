// The training loop of every experiment: a fixed schedule of logs, evaluations and checkpoints, model selection by the
// validation set, the test at the end, and checkpoints from which a stopped run continues bit for bit.
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

#include "engine/comm/communicator.h"
#include "engine/error.h"
#include "engine/io/data_log.h"
#include "experiments/common/process/log.h"
#include "experiments/common/run/metrics.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/common/run/state.h"

namespace bochner {

/// The results of one training step, in tensors of one element. If they are on a GPU, the trainer reads them only from
/// time to time, so that steps do not wait. `count` is the number of samples. Of the `judged` answers, `correct` were
/// right; a task without accuracy leaves both as they are.
struct StepResult {
  Tensor loss;
  Tensor correct{};
  int64_t count = 0;
  int64_t judged = 0;
};

/// The cause of a loss that is not finite.
struct Blame {
  std::string layer{};              ///< the first layer whose output is not finite, if known
  std::vector<int64_t> examples{};  ///< of the batch
};

/// The results on the test set without learning, for example by naming the majority class.
struct Baseline {
  std::string name;
  Metrics test;
};

enum class Split : unsigned char { valid, test };

/// Called with the number of examples measured so far, and the number of all.
using EvaluationWatch = std::function<void(int64_t, int64_t)>;

/// The answer of a model to one example.
struct Prediction {
  std::string answer;             ///< the class or the number
  std::vector<double> numbers{};  ///< such as the probability of each class
  int64_t number = 0;             ///< of the example, from 0: in its set or, for a table, among the rows of its file
};

/// A model with its optimizer, data and generators.
class Trainable {
 public:
  virtual ~Trainable() = default;
  Trainable() = default;
  Trainable(const Trainable&) = delete;
  Trainable& operator=(const Trainable&) = delete;

  /// Called before the first step, when all state is restored: for work that is done once and is not training, so it
  /// counts neither in the time nor in the memory of training.
  virtual void prepare() {}
  /// Runs update number `step`, counted from 0. Once a loss is not finite, neither this nor a later step may change the
  /// parameters.
  virtual StepResult step(int64_t step) = 0;
  /// Measures the model on a split. It must not change anything that save_training() saves, even if evaluated() throws.
  virtual Metrics evaluate(Split split) = 0;
  /// The number of examples in the test set; 0 if it is not a set of examples.
  virtual int64_t test_examples() { return 0; }
  /// The files of answers that --predict writes, each for the examples of one set; none if the model answers no
  /// questions.
  virtual std::vector<std::string> answer_files() { return {}; }
  /// Calls the function with the model's answer to each example of that file's set, in order.
  virtual void predict(const std::string& /*file*/, const std::function<void(const Prediction&)>&) {}

  /// The parameters and buffers, under their Hugging Face names if the model exists there. Values that never change and
  /// are in a file of their own may be left out.
  virtual void save_model(State& state) = 0;
  /// The same with nothing left out.
  virtual void save_whole_model(State& state) { save_model(state); }
  virtual void load_model(const State& state) = 0;
  /// Everything else that later steps depend on: optimizer, generators, position in the data. Names must differ from
  /// those of the model and must not begin with `run.`.
  virtual void save_training(State& state) = 0;
  virtual void load_training(const State& state) = 0;

  /// The number of trained parameters.
  virtual int64_t parameters() = 0;
  /// Further values to log at this step, such as the learning rate.
  virtual Metrics extra() { return {}; }
  /// Baselines for this model's results, from the same data.
  virtual std::vector<Baseline> baselines() { return {}; }
  /// The names of the model's inputs, if they have names, such as the columns of a table.
  virtual std::vector<std::string> inputs() { return {}; }
  /// Remarks that must accompany every number of this run, such as that its test set is a part of the published one.
  virtual std::vector<std::string> remarks() { return {}; }
  /// The name of the set that is both validation and test set; empty if they are two.
  virtual std::string only_set() { return ""; }
  /// Seconds that steps waited for their batches; 0 if batches are not made in parallel with them.
  virtual double waited() { return 0; }
  /// Called once if the loss of `step`, the latest step or one shortly before it, is not finite.
  virtual Blame blame(int64_t) { return {}; }

  /// Called once, before anything else, if several processes train this model; all of them call the same functions in
  /// the same order.
  virtual void share(Communicator& comm) {
    if (comm.size() > 1) fail("{} processes: this program trains in one; start it without mpirun", comm.size());
  }

  /// Called before each step if training is limited by time, with the share of the time that has passed.
  void set_share_of_time(double share) { share_of_time_ = share; }
  /// Sets the function that evaluated() calls.
  void watch_evaluation(EvaluationWatch watch) { watch_ = std::move(watch); }

 protected:
  /// evaluate() calls this after each batch with the number of examples measured so far. It shows the progress, and
  /// throws if the program is asked to stop.
  void evaluated(int64_t examples, int64_t of) const {
    if (watch_) watch_(examples, of);
  }
  /// From 0 to 1; 0 if training is not limited by time.
  double share_of_time() const { return share_of_time_; }

 private:
  EvaluationWatch watch_;
  double share_of_time_ = 0;
};

struct TrainPlan {
  int64_t steps = 0;
  /// Training ends after the step in which the time spent in steps exceeds this many seconds, if that comes before
  /// `steps`; 0: no limit.
  double seconds = 0;
  int64_t log_every = 50;  ///< also at each evaluation
  /// In steps; 0: after each tenth of the training.
  int64_t evaluate_every = 500;
  /// In steps; 0: only at evaluations.
  int64_t checkpoint_every = 0;
  /// Also write a checkpoint when this much time has passed since the latest one; 0: never.
  double checkpoint_minutes = 0;
  /// The validation metric that chooses the best model, by its largest or smallest value (higher_is_better).
  std::string best_by = "accuracy";
};

struct TrainResult {
  int64_t steps = 0;         ///< steps done
  double seconds_limit = 0;  ///< TrainPlan::seconds
  int64_t best_step = 0;
  Metrics valid, test;            ///< of the best checkpoint
  Metrics valid_last, test_last;  ///< of the last one
  std::vector<Baseline> baselines;
  std::vector<std::string> inputs;   ///< names, if they have any
  std::vector<std::string> remarks;  ///< to accompany every number
  std::string only_set;              ///< Trainable::only_set
  int64_t test_examples = 0;
  int64_t parameters = 0;
  int64_t peak_memory_bytes = 0;
  double train_seconds = 0;   ///< in steps alone, over all sessions of the run
  double waited_seconds = 0;  ///< the part of these in which steps waited for their batches (Trainable::waited)
  int64_t samples = 0;        ///< seen by these steps
  int processes = 1;          ///< that trained together at the end
  int64_t bytes_sent = 0;     ///< in a step, by the process that sent the most

  /// The name of the set behind `test`.
  std::string test_name() const { return only_set.empty() ? "test" : only_set; }
  double steps_per_second() const { return per_second(steps); }
  double samples_per_second() const { return per_second(samples); }

 private:
  double per_second(int64_t count) const { return train_seconds > 0 ? static_cast<double>(count) / train_seconds : 0; }
};

/// The identity of a run, which its checkpoints record (stored_run.h).
struct RunIdentity {
  std::string id;
  std::string config;            ///< text of config.ini
  std::string config_before{};   ///< the text before --resume changes it; empty if it does not
  std::vector<DataRead> data{};  ///< what the run learns from
  std::string init = "null";     ///< JSON: where its initial weights came from, if from another run
  std::string overrides = "{}";  ///< JSON: settings that differ from the protocol's
};

/// A loss as messages show it: NaN without its sign, which has no meaning.
double shown_loss(double loss);

class Trainer {
 public:
  /// `go_on` is the command that continues the run after an interruption. If several processes train the model, each
  /// has a Trainer, and only the first one reads and writes files.
  Trainer(Trainable& model, TrainPlan plan, const RunFolder& folder, RunIdentity identity, Log& log, Device device,
          std::string go_on, Communicator& comm = alone());

  /// Trains to the end, from checkpoint-last if the folder has one. Throws Interrupted after writing a checkpoint, and
  /// RunFailure if the loss, or anything to be saved, is not finite. Errors about a full disk or unresponsive processes
  /// include the command that continues the run.
  TrainResult run();
  /// The number of steps done, also if run() ended in an error.
  int64_t steps() const { return step_; }

 private:
  struct Best {
    int64_t step = -1;
    Metrics valid;
  };

  struct Sitting;
  TrainResult train();
  /// What is done after a step.
  struct Follows {
    bool evaluates = false;  ///< this also saves
    bool logs = false;
    bool saves = false;
  };

  /// Restores this run from checkpoint-last and returns the state in it; nullopt if the run begins, and in every
  /// process but the first.
  std::optional<State> restored();
  void go_on_from(const State& before, class Records& records);
  /// Whether --resume changes the run from what it was then meant to be.
  bool is_changed_since(const State& before) const;
  /// Makes a step, unless the run was stopped during the evaluation of the latest one, and says what must follow it.
  Follows advance(Sitting& sitting);
  void make_step();
  void show(Sitting& sitting);
  /// Does what follows a step. Throws Interrupted if the program is asked to stop before the end.
  void settle(const Follows& next, Sitting& sitting);
  bool is_multiple(int64_t interval) const { return interval > 0 && step_ % interval == 0; }
  double share_of_time() const;
  int tenths_done() const;
  bool reached_its_end() const;
  void read_results();
  void restore(const State& state);
  void require_best();
  void warn_of_schedule(const State& state) const;
  State now();
  void begin_alike();
  void agree(bool& due);
  void write_config();
  void save_last(class Records& records);
  void save_best();
  void log_training(class Records& records);
  Metrics measure(Split split, class Progress& progress);
  /// On the validation set; nullopt if the program is asked to stop meanwhile.
  std::optional<Metrics> measure_unless_stopped(class Progress& progress);
  void take_evaluation(const Metrics& valid, class Records& records);
  bool is_better(const Metrics& valid) const;
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
  Communicator& comm_;
  int64_t bytes_sent_ = 0;         ///< in the latest step
  std::deque<StepResult> unread_;  ///< of the steps before step_

  // The state of the run, all of it in checkpoint-last.
  int64_t step_ = 0;
  double train_seconds_ = 0;
  double waited_before_ = 0;  ///< in the sessions before this one
  int64_t samples_ = 0;
  double loss_sum_ = 0;  ///< since the latest log
  int64_t loss_count_ = 0;
  int64_t correct_ = 0;
  int64_t judged_ = 0;  ///< samples of which these were right
  Best best_;
  Metrics valid_last_;
  bool unevaluated_ = false;  ///< the run was stopped during the evaluation of this step
};

}  // namespace bochner
