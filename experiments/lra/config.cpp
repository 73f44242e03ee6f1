#include "experiments/lra/config.h"

#include "experiments/learners/sequence/pretraining.h"
#include "experiments/learners/sequence/random_data.h"

namespace bochner::lra {

Config::Config() {
  run.tasks = names_of(tasks);
  run.task = run.tasks.front();
  run.attentions = sequence::mechanism_names();
  run.attention = "performer";
  run.steps = 5000;
  run.batch = 32;
  optim.rate = 1e-4;
}

void Config::fields(Fields& f) {
  run.fields(f);
  run.group_by_length_field(f);
  f("random-data", random_data,
    "train on random sequences of the task's full length instead of its files: what a run costs, before they are "
    "there");
  f("learn", learn, {{"classes", Goal::classes}, {"masked-tokens", Goal::masked_tokens}},
    "the task's classes, or to name hidden tokens of its training set; another run can then --init from these weights");
  f("mask-share", mask_share, "of tokens that are hidden").above(0).below(1);
  f("table", table,
    "print finished runs in these folders and below as the papers' tables, tasks against mechanisms; trains nothing")
      .command_line_only();
  f("format", format, "of --table").one_of({"markdown", "latex", "html"}).command_line_only();
  f("record", record,
    "make --steps steps and write into this safetensors file what another implementation needs to repeat them: the "
    "initial weights, and each step's batch and loss; makes no run folder")
      .command_line_only();
  f.then([this](const Fields&) {
    if (!record.empty() && run.steps < 1) fail("--record: there is nothing to record in --steps={}", run.steps);
  });
  fields_of(tasks, f);
  f.group("model", model);
  f.group("optim", optim);
  f("analyse", analyse,
    "compute what the papers say about the best model of this run folder: noise, learnt covariances, singular values "
    "and instability; trains nothing")
      .command_line_only();
  f.group("analysis", analysis);
}

ArenaTask task_of(const Config& config) {
  ArenaTask task = task_named(config.tasks, config.run.task);
  if (config.random_data) task.baselines = {};
  return task;
}

TaskData data_of(const Config& config, const ArenaTask& task, Log& log) {
  if (config.random_data) return sequence::random_data(task.about(config.run), config.run.batch);
  return task.load(config.run, messages_to(log));
}

Problem problem_of(const Config& config, const TaskData& data, const ArenaTask& task) {
  const EncoderOptions options = encoder_options(config.model, config.run.attention, data.task);
  if (config.learn == Goal::masked_tokens) {
    return sequence::masked_tokens(config.run, options, data, config.mask_share);
  }
  return sequence::classification(config.run, options, data, task);
}

}  // namespace bochner::lra
