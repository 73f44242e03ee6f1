// Long Range Arena: trains a sequence classifier with any attention of the registry and tests it.
#include "experiments/common/program/program.h"
#include "experiments/common/report/comparison.h"
#include "experiments/common/report/task_tables.h"
#include "experiments/common/run/run.h"
#include "experiments/learners/sequence/problem.h"
#include "experiments/lra/config.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

/// Refuses an impossible model or training before any data are made.
void check(const lra::Config& config, const Task& task) {
  config.optim.schedule_of(config.run.steps);
  Generator init(0);
  sequence::classifier(encoder_options(config.model, config.run.attention, task), task, init);
}

void print_table(const lra::Config& config, const Session& session) {
  const FoundRuns found = runs_below(config.table, session.experiment.name);
  const PaperTable papers = PaperTable::parse(session.experiment.resources.paper);
  fmt::print("{}",
             written(task_tables(found.runs, config.run.tasks, config.run.attentions, papers), found, config.format));
}

void run(lra::Config& config, Session& session) {
  if (!config.table.empty()) return print_table(config, session);
  if (!config.analyse.empty()) return lra::analyse(config, session);
  const lra::ArenaTask task = task_of(config);
  check(config, task.about(config.run));
  const TaskData data = data_of(config, task, session.log);
  const EncoderOptions options = encoder_options(config.model, config.run.attention, data.task);
  train_runs(session, plan_by(task, config.run, config.optim), [&] {
    return std::make_unique<Learner>(config.run, config.optim,
                                     sequence::classification(config.run, options, data, task));
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments = bochner::with_list(bochner::Arguments(argv, argv + argc), "table");
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  return bochner::main_of<bochner::lra::Config>(
      {.name = "lra",
       .summary = "Long Range Arena: classification of long sequences, with any attention of the registry",
       .resources = bochner::embedded_resources(),
       .stores_bf16 = true,
       .of_run = {"analyse"}},
      static_cast<int>(words.size()), words.data(), run);
}
