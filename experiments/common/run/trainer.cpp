#include "experiments/common/run/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/allocator.h"
#include "engine/comm/silence.h"
#include "engine/error.h"
#include "engine/io/file.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/stopwatch.h"
#include "experiments/common/process/interrupt.h"
#include "experiments/common/process/processes.h"
#include "experiments/common/process/progress.h"
#include "experiments/common/run/records.h"

namespace bochner {
namespace {

/// Results on a GPU are read this often, and when they are logged or saved, since reading waits for all earlier steps.
constexpr double kSecondsBetweenReads = 1;

std::string ids_text(const std::vector<int64_t>& ids) {
  constexpr size_t kShown = 64;
  std::string text;
  for (size_t i = 0; i < std::min(ids.size(), kShown); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", ids[i]);
  return ids.size() > kShown ? text + ", ..." : text;
}

}  // namespace

double shown_loss(double loss) { return std::isnan(loss) ? std::abs(loss) : loss; }

Trainer::Trainer(Trainable& model, TrainPlan plan, const RunFolder& folder, RunIdentity identity, Log& log,
                 Device device, std::string go_on, Communicator& comm)
    : model_(model),
      plan_(std::move(plan)),
      folder_(folder),
      identity_(std::move(identity)),
      log_(log),
      device_(device),
      go_on_(std::move(go_on)),
      comm_(comm) {
  if (plan_.log_every < 1 || plan_.evaluate_every < 0 || plan_.checkpoint_every < 0) {
    fail("training: log_every {} must be at least 1, evaluate_every {} and checkpoint_every {} at least 0",
         plan_.log_every, plan_.evaluate_every, plan_.checkpoint_every);
  }
}

/// What a run begins anew each time it is resumed.
struct Trainer::Sitting {
  Records& records;
  Progress progress;
  int64_t first_step;
  double seconds_before;
  Stopwatch since_read{}, since_save{};
};

TrainResult Trainer::run() {
  const auto told = [&](const Error& failure) {
    // Processes other than the first may not see the folder.
    const bool began = !comm_.is_first() || holds_run(folder_.path());
    return failure.what() + (began ? "; go on with: " + go_on_ : "");
  };
  try {
    return train();
  } catch (const DiskError& failure) {
    throw DiskError(told(failure));
  } catch (const Silence& failure) {
    throw Silence(told(failure));
  }
}

TrainResult Trainer::train() {
  const StopLater later;
  const std::optional<State> before = restored();
  if (!before) write_config();
  Records records(folder_, before ? *before : State(), step_, log_, comm_.is_first());
  if (before) go_on_from(*before, records);
  if (comm_.size() > 1) begin_alike();
  if (!reached_its_end()) model_.prepare();
  Allocator::of(device_).reset_peak();

  Sitting sitting{records, Progress(log_), step_, train_seconds_};
  if (step_ == 0 && reached_its_end() && (unevaluated_ || valid_last_.empty())) {  // there is no step to do
    unevaluated_ = false;
    settle({.evaluates = true, .saves = true}, sitting);
  }
  while (unevaluated_ || !reached_its_end()) settle(advance(sitting), sitting);
  if (model_.waited() > 0) {
    const double trained = train_seconds_ - sitting.seconds_before;
    log_.info("{:.1f} s of training, of which steps waited {:.2f} s ({:.2f} %) for their batches", trained,
              model_.waited(), 100 * model_.waited() / trained);
  }
  TrainResult result = finish(sitting.progress);
  sitting.progress.finish();
  return result;
}

Trainer::Follows Trainer::advance(Sitting& sitting) {
  const Stopwatch watch;
  const int tenths = tenths_done();
  Follows next;
  next.evaluates = std::exchange(unevaluated_, false);
  if (!next.evaluates) {
    make_step();
    next.evaluates = is_multiple(plan_.evaluate_every);
  }
  next.logs = is_multiple(plan_.log_every);
  next.saves = next.evaluates || is_multiple(plan_.checkpoint_every) ||
               (plan_.checkpoint_minutes > 0 && sitting.since_save.seconds() >= 60 * plan_.checkpoint_minutes);
  // Time is added up before it is compared, so that a run that is resumed from here makes the same decisions.
  bool reads = device_.is_cpu() || next.logs || next.saves || interrupted() ||
               sitting.since_read.seconds() > kSecondsBetweenReads;
  if (reads) read_results();
  train_seconds_ += watch.seconds();
  agree(next.saves);
  next.evaluates = next.evaluates || reached_its_end() || (plan_.evaluate_every == 0 && tenths_done() > tenths);
  next.saves = next.saves || next.evaluates;
  next.logs = next.logs || next.evaluates;
  if (next.saves && !reads) {
    const Stopwatch rest;
    read_results();
    train_seconds_ += rest.seconds();
    reads = true;
  }
  if (next.saves) agree(next.saves);  // not every process had to read
  if (reached_its_end()) next = {.evaluates = true, .logs = true, .saves = true};
  if (reads) show(sitting);
  return next;
}

void Trainer::make_step() {
  model_.set_share_of_time(share_of_time());
  const int64_t sent = comm_.bytes_sent();
  unread_.push_back(model_.step(step_));
  bytes_sent_ = comm_.bytes_sent() - sent;
  ++step_;
}

void Trainer::show(Sitting& sitting) {
  sitting.since_read = Stopwatch();
  ProgressState state{.step = step_,
                      .steps = plan_.steps,
                      .seconds = train_seconds_,
                      .limit = plan_.seconds,
                      .loss = loss_sum_ / static_cast<double>(loss_count_)};
  if (judged_ > 0) state.accuracy = static_cast<double>(correct_) / static_cast<double>(judged_);
  if (train_seconds_ > sitting.seconds_before) {
    state.rate = static_cast<double>(step_ - sitting.first_step) / (train_seconds_ - sitting.seconds_before);
  }
  sitting.progress.update(state);
}

void Trainer::settle(const Follows& next, Sitting& sitting) {
  if (next.saves) require_finite();
  std::optional<Metrics> valid;
  if (next.evaluates) valid = measure_unless_stopped(sitting.progress);
  unevaluated_ = next.evaluates && !valid;  // then this step is recorded when the run continues
  if (next.logs && !unevaluated_) log_training(sitting.records);
  if (valid) take_evaluation(*valid, sitting.records);
  const bool stops = asked_to_stop(comm_);
  if (next.saves || stops) {
    read_results();  // of an interruption that has just come
    if (!next.saves) require_finite();
    save_last(sitting.records);
    if (valid && best_.step == step_) save_best();  // after checkpoint-last, from which it can be made again
    sitting.since_save = Stopwatch();
  }
  if (!stops || (!unevaluated_ && reached_its_end())) return;
  sitting.progress.finish();
  throw Interrupted(fmt::format(
      "interrupted at step {} of {}{}; go on with: {}", step_, plan_.steps,
      plan_.seconds > 0 ? fmt::format(", {:.0f} of {:g} seconds", train_seconds_, plan_.seconds) : "", go_on_));
}

void Trainer::read_results() {
  while (!unread_.empty()) {
    const StepResult result = unread_.front();
    const double loss = result.loss.item();
    if (!std::isfinite(loss)) fail_not_finite(step_ - static_cast<int64_t>(unread_.size()), loss);
    unread_.pop_front();
    loss_sum_ += loss;
    loss_count_ += 1;
    samples_ += result.count;
    if (!result.correct.defined()) continue;
    correct_ += static_cast<int64_t>(result.correct.item());
    judged_ += result.judged;
  }
}

double Trainer::share_of_time() const { return plan_.seconds > 0 ? std::min(1.0, train_seconds_ / plan_.seconds) : 0; }

/// How many tenths of the training are complete.
int Trainer::tenths_done() const {
  const double steps = plan_.steps > 0 ? static_cast<double>(step_) / static_cast<double>(plan_.steps) : 1;
  return static_cast<int>(10 * std::max(steps, share_of_time()));
}

bool Trainer::reached_its_end() const {
  return step_ >= plan_.steps || (plan_.seconds > 0 && train_seconds_ >= plan_.seconds);
}

void Trainer::log_training(Records& records) {
  if (loss_count_ == 0) return;  // no step was made
  Metrics values = {{"loss", loss_sum_ / static_cast<double>(loss_count_)}};
  if (judged_ > 0) values.emplace_back("accuracy", static_cast<double>(correct_) / static_cast<double>(judged_));
  for (const auto& value : model_.extra()) values.push_back(value);
  values.emplace_back("seconds", train_seconds_);
  records.write(step_, "train", values);
  loss_sum_ = 0;
  loss_count_ = correct_ = judged_ = 0;
}

Metrics Trainer::measure(Split split, Progress& progress) {
  std::string name = split == Split::valid ? "valid" : "test";
  if (const std::string only = model_.only_set(); !only.empty()) name = only;
  struct Watched {
    Trainable& model;
    ~Watched() { model.watch_evaluation({}); }
  } const watched{model_};
  model_.watch_evaluation([&, name](int64_t done, int64_t of) {
    if (asked_to_stop(comm_)) {
      progress.finish();
      throw Interrupted(fmt::format("interrupted while measuring on {}; go on with: {}", name, go_on_));
    }
    progress.update_evaluation(name, done, of);
  });
  return model_.evaluate(split);
}

std::optional<Metrics> Trainer::measure_unless_stopped(Progress& progress) {
  try {
    return measure(Split::valid, progress);
  } catch (const Interrupted&) {
    return std::nullopt;
  }
}

void Trainer::take_evaluation(const Metrics& valid, Records& records) {
  valid_last_ = valid;
  records.write(step_, "valid", valid_last_);
  log_.info("step {}: valid {}", step_, metrics_text(valid_last_));
  if (is_better(valid_last_)) best_ = {step_, valid_last_};
}

bool Trainer::is_better(const Metrics& valid) const {
  const double* const value = find_metric(valid, plan_.best_by);
  if (value == nullptr) fail("training: the evaluation has no '{}' to choose the best model by", plan_.best_by);
  if (best_.step < 0) return true;
  const double* const best = find_metric(best_.valid, plan_.best_by);
  if (best == nullptr || std::isnan(*best)) return true;
  return higher_is_better(plan_.best_by) ? *value > *best : *value < *best;
}

/// Whether a run that is made longer is the same as one that was longer from the start.
void Trainer::warn_of_schedule(const State& state) const {
  const Metrics before = parse_metrics_json(state.text("run.extra"), state.file);
  for (const auto& [name, now] : model_.extra()) {
    const double* const then = find_metric(before, name);
    if (then == nullptr || *then == now) continue;
    log_.warning(
        "{} of step {} was {:.4g}, in a run of {} steps it is {:.4g}: its schedule depends on the length of training, "
        "so this run will not equal one of {} steps without a break",
        name, step_, *then, plan_.steps, now, plan_.steps);
  }
  const bool is_regular = step_ > 0 && is_multiple(plan_.evaluate_every);
  const bool had_ended = std::filesystem::exists(folder_ / kResults);
  if (is_regular || reached_its_end() || !had_ended) return;
  log_.warning("step {} was logged and evaluated as the last one; a run of {} steps without a break would not do so",
               step_, plan_.steps);
}

std::string Trainer::which(const Blame& blame) {
  const std::string ids = ids_text(blame.examples);
  const bool saved = std::filesystem::exists(folder_ / kCheckpointLast);
  return (ids.empty() ? "" : "; batch ids " + ids) +
         (saved ? "; the checkpoints in " + folder_.path().string() + " are good"
                : "; no checkpoint was written before");
}

void Trainer::fail_not_finite(int64_t step, double loss) {
  log_.draw("");
  const Blame blame = model_.blame(step);
  throw RunFailure(fmt::format("the loss of step {} is {}{}{}", step + 1, shown_loss(loss),
                               blame.layer.empty() ? "" : "; first layer whose output is not finite: " + blame.layer,
                               which(blame)));
}

// A finite loss may have a gradient that is not finite. The next loss would show it, but a checkpoint written before
// that would be useless.
void Trainer::require_finite() {
  State state;
  model_.save_model(state);
  model_.save_training(state);
  for (const auto& [name, tensor] : state.tensors) {
    if (!is_floating(tensor.dtype()) || tensor.size() == 0 || std::isfinite(sum(tensor * 0.0).item())) continue;
    log_.draw("");
    const Blame blame = step_ > 0 ? model_.blame(step_ - 1) : Blame();
    throw RunFailure(fmt::format("step {} left '{}' with values that are not finite{}{}", step_, name,
                                 blame.layer.empty() ? "" : "; first layer whose output is not finite: " + blame.layer,
                                 which(blame)));
  }
}

TrainResult Trainer::finish(Progress& progress) {
  TrainResult result;
  result.steps = step_;
  result.seconds_limit = plan_.seconds;
  result.test_examples = model_.test_examples();
  result.parameters = model_.parameters();
  result.train_seconds = train_seconds_;
  result.waited_seconds = waited_before_ + model_.waited();
  result.samples = samples_;
  result.processes = comm_.size();
  result.bytes_sent = comm_.largest(bytes_sent_);
  result.valid_last = valid_last_;
  result.test_last = measure(Split::test, progress);
  result.best_step = best_.step;
  if (best_.step == step_) {  // the last step is the best
    result.valid = result.valid_last;
    result.test = result.test_last;
  } else {
    model_.load_model(broadcast(comm_, comm_.is_first() ? State::load(folder_ / kCheckpointBest) : State()));
    result.valid = best_.valid;
    result.test = measure(Split::test, progress);
  }
  result.baselines = model_.baselines();
  result.inputs = model_.inputs();
  result.remarks = model_.remarks();
  result.only_set = model_.only_set();
  result.peak_memory_bytes = Allocator::of(device_).stats().peak_bytes;
  return result;
}

}  // namespace bochner
