// Any model in training: the one Trainable (experiments/common/run/trainer.h) of all programs that learn from examples.
//
//   Problem problem{.model = model, .forward = ..., .objective = std::make_shared<Classification>(), ...};
//   Learner learner(config.run, config.optim, std::move(problem));
//
// A program defines what is to be learnt, as a Problem. The Learner does the rest: the step with its parts, clipping
// and guard; recorded steps on a GPU; evaluation and predictions; the contents of checkpoints; and finding the cause of
// a loss that is not finite.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/step_graph.h"
#include "experiments/common/config/options.h"
#include "experiments/common/run/trainer.h"
#include "experiments/learners/examples.h"
#include "experiments/learners/objective.h"
#include "experiments/learners/optim_config.h"
#include "experiments/learners/sharded_step.h"
#include "layers/module.h"

namespace bochner {

/// The streams into which the seed of a run is split. A program's own streams begin at `own`.
enum class Stream : uint64_t { init = 1, noise = 2, order = 3, evaluation = 4, own = 5 };
Generator stream_of(uint64_t seed, Stream stream);

/// What is learnt, in independent parts. For --predict, `asked` replaces `train` and `split`.
struct Problem {
  std::shared_ptr<Module> model;
  /// The model's outputs for examples that are on its device.
  std::function<Outputs(const Examples&, Context&)> forward;
  std::shared_ptr<const Objective> objective;
  std::unique_ptr<Feed> train;
  /// The examples of a split, each once and in order.
  std::function<std::unique_ptr<Feed>(Split)> split;
  /// The metrics of evaluations; see metrics_named().
  std::vector<Metric> metrics = {};
  /// Names of the examples' tensors that have tokens along their last axis, if the loss is one of whole sequences and
  /// the model takes slices of them (Context::slice). Empty: --sequence-shards is refused.
  std::vector<std::string> sequences = {};
  /// The parameters that have their own rate or decay, and the frozen ones.
  std::vector<GroupRule> groups = {};
  std::function<std::vector<Baseline>()> baselines = {};
  /// The number that --predict gives a test example; empty: its number in the split.
  std::function<int64_t(int64_t)> number_of = {};
  std::vector<std::string> inputs = {};   ///< their names, if they have any
  std::vector<std::string> remarks = {};  ///< on the data, to stand beside every number
  std::string only_set = {};              ///< Trainable::only_set
  /// Files of answers, each with the examples that it answers. Empty: predictions.tsv, of the test split.
  struct Asked {
    std::string file;
    std::function<std::unique_ptr<Feed>()> examples;
  };
  std::vector<Asked> asked = {};
  /// Sets that are evaluated together with the test split, by the same metrics: METRIC-NAME.
  struct TestSet {
    std::string name;
    std::function<std::unique_ptr<Feed>()> examples;
  };
  std::vector<TestSet> further_tests = {};
  /// Further metrics of a split, for this program alone.
  std::function<void(Split, const Answers&, Metrics&)> further = {};
  /// What answers depend on besides the weights, such as how columns were standardised: `keeps` writes it into
  /// checkpoints, and `recalls` reads it when a model is loaded, perhaps to answer about other data. An Error of
  /// `recalls` says that the data do not fit.
  std::function<void(State&)> keeps = {};
  std::function<void(const State&)> recalls = {};
  /// Frozen parameters and the file that they were read from. Checkpoints hold the file's hash in place of them.
  struct Base {
    std::string file{};
    std::string sha256{};
    std::set<std::string> tensors{};
  };
  Base base = {};
};

/// A plan that chooses the best model by this metric.
TrainPlan plan_by(const Metric& metric, const RunOptions& run, const OptimConfig& optim);

/// Copies a checkpoint into a model; an Error names a tensor that does not fit.
void load_module(Module& model, const State& state);

/// Copies a checkpoint that may leave out weights of `base` into a model that has already read them. An Error if the
/// checkpoint means those of another file.
void load_module(Module& model, const State& state, const Problem::Base& base);

/// Whether a checkpoint leaves out weights that are in a file of their own (Problem::base).
bool leaves_out_weights(const State& state);

class Learner final : public Trainable {
 public:
  /// Moves the model to --device. An Error if --accumulate asks for more parts than a batch has examples, if --shards
  /// does not divide the batch, or if a loss that cannot be divided is to be computed in parts.
  Learner(const RunOptions& run, const OptimConfig& optim, Problem problem);

  void prepare() override { problem_.train->prepare(); }
  /// Runs forward and backward for each of --accumulate parts, then clips and takes the optimizer's step. Parts are
  /// weighted by their number of terms, so the gradient is that of the whole batch up to rounding, except that noise is
  /// drawn for each part, and each part updates running statistics. Features that are kept for several steps are the
  /// same in all parts.
  ///
  /// With --shards, the shards are the parts (sharded_step.h): each process takes some of them, and noise is drawn for
  /// each step and shard. With --sequence-shards, each shard is cut further, along its sequences.
  StepResult step(int64_t step) override;
  /// Without dropout. The noise of random features comes from a separate generator and is the same each time. With
  /// several processes, they take the batches in turns, and the first process judges all outputs, in order.
  Metrics evaluate(Split split) override;
  int64_t test_examples() override { return problem_.split(Split::test)->examples(); }
  std::vector<std::string> answer_files() override;
  void predict(const std::string& file, const std::function<void(const Prediction&)>& say) override;

  void save_model(State& state) override;
  void save_whole_model(State& state) override;
  /// An Error if the checkpoint leaves out weights of a file other than Problem::base.
  void load_model(const State& state) override;
  void save_training(State& state) override;
  void load_training(const State& state) override;

  int64_t parameters() override { return parameter_count_; }
  Metrics extra() override;
  std::vector<Baseline> baselines() override;
  std::vector<std::string> inputs() override { return problem_.inputs; }
  std::vector<std::string> remarks() override { return problem_.remarks; }
  std::string only_set() override { return problem_.only_set; }
  double waited() override { return waited_; }
  Blame blame(int64_t step) override;
  void share(Communicator& comm) override;

 private:
  /// A whole step, for a batch that is on the device, after the optimizer has prepared its numbers.
  void update(const Examples& batch, int64_t step);
  /// Sums over the parts of a step, f64.
  struct Totals {
    Tensor loss;
    Tensor correct;
  };
  void add_part(const Examples& examples, Context& context, const Tensor& terms, const Totals& to,
                const Tape::Completed& completed = {});
  void add_shards(const Examples& batch, int64_t step);
  /// Calls `judge` with each batch of a feed and the model's outputs for it.
  using Judge = std::function<void(const Examples&, const Outputs&)>;
  void answer(Feed& feed, const Judge& judge);
  /// The same with all processes; the first one judges.
  void answer_together(Feed& feed, const Judge& judge);
  /// The answers to a feed's examples; with several processes, the first one has them.
  Answers answers_to(Feed& feed);

  Problem problem_;
  OptimConfig optim_;
  bool base_changed_ = false;  ///< by load_model(): from then on, checkpoints leave nothing out
  Device device_;
  uint64_t seed_;
  int64_t accumulate_;
  int shards_;  ///< 0: batches are not cut into shards
  int slices_;  ///< of the sequences of each shard
  bool fast_;   ///< processes add in any order
  Communicator* comm_ = &alone();
  Generator noise_;
  std::vector<Parameter*> parameters_;
  int64_t parameter_count_;
  std::unique_ptr<Adam> optimizer_;
  Schedule schedule_;
  std::unique_ptr<ShardedStep> sharded_;
  int64_t next_ = 0;   ///< the step whose batch the feed returns next
  double waited_ = 0;  ///< time spent waiting for batches, in seconds
  Examples batch_;     ///< of the previous step
  ExamplesPlace place_;
  int64_t moves_ = 0;  ///< moves of the place, when the graph's recordings began
  Tensor loss_;        ///< of the latest step, f64
  Tensor correct_;     ///< likewise
  Tensor loss_sum_;    ///< of all steps, f64: once it is not finite, nothing is updated
  bool replays_;       ///< for steps on a GPU whose shapes recur
  StepGraph graph_;
};

}  // namespace bochner
