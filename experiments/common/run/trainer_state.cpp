// The state of a run: what its checkpoints hold, and what its processes agree on.
#include <fmt/format.h>

#include <filesystem>

#include "engine/error.h"
#include "engine/io/file.h"
#include "experiments/common/run/data_record.h"
#include "experiments/common/run/records.h"
#include "experiments/common/run/trainer.h"

namespace bochner {

std::optional<State> Trainer::restored() {
  if (!comm_.is_first()) return std::nullopt;
  if (!std::filesystem::exists(folder_ / kCheckpointLast)) {
    if (!std::filesystem::is_regular_file(folder_ / kCheckpointBest)) return std::nullopt;
    fail("--resume: {} is missing, from which the run would go on; restore it, or begin another run with --init={}",
         (folder_ / kCheckpointLast).string(), (folder_ / kCheckpointBest).string());
  }
  State before = State::load(folder_ / kCheckpointLast);
  restore(before);
  if (best_.step >= 0) require_best();
  if (is_changed_since(before)) warn_of_schedule(before);
  return before;
}

void Trainer::go_on_from(const State& before, Records& records) {
  log_.info("continuing {} at step {}", folder_.path().string(), step_);
  if (is_changed_since(before)) {
    std::filesystem::remove(folder_ / kResults);  // which would say that the run is finished
    save_last(records);                           // records config.ini as it is and as it will be
  }
  write_config();
}

bool Trainer::is_changed_since(const State& before) const {
  return !identity_.config_before.empty() && before.text("run.config") != identity_.config;
}

void Trainer::save_best() {
  if (!comm_.is_first()) return;
  State state;
  model_.save_model(state);
  state.set("run.step", step_);
  state.set("run.id", identity_.id);
  state.set("run.config", identity_.config);
  state.set("run.valid", metrics_json(best_.valid));
  state.save(folder_ / kCheckpointBest);
}

void Trainer::write_config() {
  if (comm_.is_first()) write_file_atomically(folder_ / kConfig, identity_.config);
}

void Trainer::save_last(Records& records) {
  if (!comm_.is_first()) return;
  State state = now();
  records.mark(state);  // before the checkpoint, so that the files that it continues are already on disk
  state.save(folder_ / kCheckpointLast);
}

State Trainer::now() {
  State state;
  model_.save_model(state);
  model_.save_training(state);
  state.set("run.id", identity_.id);
  state.set("run.config", identity_.config);
  state.set("run.config_before", identity_.config_before);
  state.set("run.data", data_json(identity_.data));
  state.set("run.init", identity_.init);
  state.set("run.overrides", identity_.overrides);
  state.set("run.extra", metrics_json(model_.extra()));
  state.set("run.step", step_);
  state.set("run.train_seconds", train_seconds_);
  state.set("run.waited_seconds", waited_before_ + model_.waited());
  state.set("run.loss_sum", loss_sum_);
  state.set("run.loss_count", loss_count_);
  state.set("run.correct", correct_);
  state.set("run.judged", judged_);
  state.set("run.samples", samples_);
  state.set("run.best_step", best_.step);
  state.set("run.best_valid", metrics_json(best_.valid));
  state.set("run.valid", metrics_json(valid_last_));
  state.set("run.unevaluated", int64_t{unevaluated_});
  return state;
}

/// All processes begin with the state of the first one, the only one that reads and writes files.
void Trainer::begin_alike() {
  model_.share(comm_);
  const State state = broadcast(comm_, comm_.is_first() ? now() : State());
  if (!comm_.is_first()) restore(state);
}

/// Makes all processes agree on the time that training took, and on what is due by it: by the first process's clock.
void Trainer::agree(bool& due) {
  if (comm_.size() == 1) return;
  State state;
  state.set("seconds", train_seconds_);
  state.set("due", int64_t{due});
  const State first = broadcast(comm_, state);
  train_seconds_ = first.real("seconds");
  due = first.integer("due") != 0;
}

void Trainer::restore(const State& state) {
  model_.load_model(state);
  model_.load_training(state);
  step_ = state.count("run.step");
  train_seconds_ = state.real("run.train_seconds");
  // Older checkpoints do not have it.
  waited_before_ = state.values.contains("run.waited_seconds") ? state.real("run.waited_seconds") : 0;
  loss_sum_ = state.real("run.loss_sum");
  loss_count_ = state.count("run.loss_count");
  correct_ = state.count("run.correct");
  judged_ = state.count("run.judged");
  samples_ = state.count("run.samples");
  best_ = {state.integer("run.best_step"), parse_metrics_json(state.text("run.best_valid"), state.file)};
  valid_last_ = parse_metrics_json(state.text("run.valid"), state.file);
  unevaluated_ = state.integer("run.unevaluated") != 0;
  model_.set_share_of_time(share_of_time());
}

/// Checks now, instead of after the rest of the training, what finish() will load. A crash may have come before the
/// file was written; then checkpoint-last, which is written first, has the same model.
void Trainer::require_best() {
  const std::string file = (folder_ / kCheckpointBest).string();
  const std::string remedy =
      "restore it from a copy, or start another run from " + (folder_ / kCheckpointLast).string() + " with --init";
  const bool is_last = best_.step == step_;
  if (!std::filesystem::exists(file)) {
    if (is_last) return save_best();
    fail("--resume: {} is missing; {}", file, remedy);
  }
  const SafetensorsFile best(file);
  for (const std::string& name : best.tensor_names()) best.read(name);
  const State state = State::values_of(best);
  if (state.text("run.id") != identity_.id) {
    fail("--resume: {} is of the run {}, but this is the run {}; {}", file, state.text("run.id"), identity_.id, remedy);
  }
  const int64_t step = state.integer("run.step");
  if (step == best_.step) return;
  if (is_last) return save_best();
  if (step < step_ || (step == step_ && !unevaluated_)) {
    fail("--resume: {} is of step {}, but the best one so far was step {}; {}", file, step, best_.step, remedy);
  }
  log_.warning(
      "{}: is of step {}, which is still to come, as an older version wrote it before a crash; the best model so far, "
      "of step {}, is lost, and that of the next evaluation takes its place",
      file, step, best_.step);
  best_ = {};
}

}  // namespace bochner
