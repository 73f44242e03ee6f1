#include "experiments/lra/config.h"

#include "experiments/learners/sequence/contrastive.h"
#include "experiments/learners/sequence/pretraining.h"
#include "experiments/learners/sequence/random_data.h"

namespace bochner::lra {
namespace {

/// Refuses an impossible model or training before any data are made and before the first of several runs begins.
void require_possible(const Config& config) {
  config.optim.schedule_of(config.run.steps);
  const std::string& attention = config.run.attention;
  if (config.run.sequence_shards > 1 && !mechanism_named(attention).slices) fail_slices(attention);
  Generator init(0);
  const Task task = task_of(config).about(config.run);
  sequence::classifier(encoder_options(config.model, attention, task), task, init);
}

}  // namespace

Config::Config() {
  run.tasks = names_of(tasks);
  run.task = run.tasks.front();
  run.attentions = attention_names();
  run.attention = "performer";
  run.steps = 5000;
  run.batch = 32;
  optim.rate = 1e-4;
}

void Config::fields(Fields& f) {
  run.fields(f);
  run.length_fields(f);
  f.at("out").only("without --record, --table and --analyse",
                   [this] { return record.empty() && table.empty() && analyse.empty(); });
  f.alone("table", {"format"}, [this] { return !table.empty(); });
  f("random-data", random_data,
    "train on random sequences of the task's full length instead of its files, to see what a run would cost");
  f("learn", learn,
    {{"classes", Goal::classes}, {"masked-tokens", Goal::masked_tokens}, {"contrastive", Goal::contrastive}},
    "what is learnt: the task's classes; or, for another run to --init from, to name hidden tokens of the training set "
    "(masked-tokens), or to find the second text of each pair among those of the batch (contrastive)");
  f("mask-share", mask_share, "share of the tokens that is hidden")
      .above(0)
      .below(1)
      .only("with --learn=masked-tokens", [this] { return learn == Goal::masked_tokens; });
  f("temperature", temperature, "what the cosine similarity of two texts is divided by")
      .above(0)
      .only("with --learn=contrastive", [this] { return learn == Goal::contrastive; });
  f("table", table,
    "print finished runs in these folders and below as the papers' tables, tasks against mechanisms; trains nothing")
      .command_line_only();
  f("format", format, "format of the tables")
      .one_of({"markdown", "latex", "html"})
      .only("with --table", [this] { return !table.empty(); })
      .command_line_only();
  f("record", record,
    "make --steps steps and write into this safetensors file what another implementation needs to repeat them: the "
    "initial weights, and each step's batch and loss; makes no run folder")
      .command_line_only();
  f.then([this](const Fields&) {
    if (record.empty()) return;
    if (run.steps < 1) fail("--record: there is nothing to record in --steps={}", run.steps);
    if (run.seconds > 0) fail("--record: the rates of a run by time are not those of its steps; add --seconds=0");
    if (!run.init.empty()) fail("--record: begins with weights of its own; leave out --init={}", run.init);
    if (run.resume || run.bench || run.seeds > 1 || !run.evaluate.empty() || !run.predict.empty())
      fail("--record: records the steps of one run; leave out --resume, --bench, --seeds, --evaluate and --predict");
  });
  fields_of(tasks, f);
  f.group("model", model);
  f.at("model.pair").only("with a task of pairs, such as --task=films", [this] {
    return task_of(*this).about(run).sequences == 2;
  });
  f.group("optim", optim);
  f("analyse", analyse,
    "compute what the papers say about the best model of this run folder: noise, learnt covariances, singular values "
    "and instability; trains nothing")
      .command_line_only();
  const size_t before = f.all().size();
  f.group("analysis", analysis);
  f.only_behind(before, "with --analyse", [this] { return !analyse.empty(); });
  f.then([this](const Fields&) {
    if (table.empty() && analyse.empty()) require_possible(*this);
  });
}

ArenaTask task_of(const Config& config) {
  ArenaTask task = task_named(config.tasks, config.run.task);
  if (config.random_data) task.baselines = {};
  return task;
}

TaskData data_of(const Config& config, const ArenaTask& task, Log& log) {
  // Contrastive learning takes half of the pairs.
  const int64_t batch = config.learn == Goal::contrastive ? 2 * config.run.batch : config.run.batch;
  if (config.random_data) return sequence::random_data(task.about(config.run), batch);
  return task.load(config.run, messages_to(log));
}

std::string best_by(const Config& config, const ArenaTask& task) {
  switch (config.learn) {
    case Goal::classes:
      return task.best_by;
    case Goal::masked_tokens:
      return "perplexity";
    case Goal::contrastive:
      return "loss";
  }
  BOCHNER_ASSERT(false);
}

Problem problem_of(const Config& config, const TaskData& data, const ArenaTask& task) {
  const EncoderOptions options = encoder_options(config.model, config.run.attention, data.task);
  switch (config.learn) {
    case Goal::classes:
      return sequence::classification(config.run, options, data, task);
    case Goal::masked_tokens:
      return sequence::masked_tokens(config.run, options, data, config.mask_share);
    case Goal::contrastive:
      return sequence::contrastive(config.run, options, data, config.temperature);
  }
  BOCHNER_ASSERT(false);
}

}  // namespace bochner::lra
