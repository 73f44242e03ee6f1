// Long Range Arena: trains a sequence classifier with any attention in the registry and tests it.
#include "experiments/common/process/arguments.h"
#include "experiments/common/process/build_info.h"
#include "experiments/common/program/program.h"
#include "experiments/common/program/run.h"
#include "experiments/common/report/task_tables.h"
#include "experiments/learners/sequence/problem.h"
#include "experiments/learners/step_record.h"
#include "experiments/lra/config.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

void print_table(const lra::Config& config, const Session& session) {
  const FoundRuns found = runs_below(config.table, session.experiment.name);
  const PaperTable papers = PaperTable::parse(session.experiment.resources.paper);
  fmt::print("{}",
             written(task_tables(found.runs, config.run.tasks, config.run.attentions, papers), found, config.format));
}

/// Writes steps for another implementation, with all that it needs to know about the model and the optimizer.
void record_steps(const lra::Config& config, const TaskData& data, const lra::ArenaTask& task, Session& session) {
  const std::filesystem::path folder = std::filesystem::path(config.record).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  Problem problem = problem_of(config, data, task);
  const Problem again = problem_of(config, data, task);
  const std::shared_ptr<Module> model = problem.model;
  Learner learner(config.run, config.optim, std::move(problem));
  const TensorMap record = recorded_steps(learner, *model, *again.train, config.run.steps);
  const BuildInfo build = build_info();
  const Metadata metadata = {{"config", session.fields.json()},
                             {"attention", config.run.attention},
                             {"vocabulary", std::to_string(data.task.vocabulary)},
                             {"max_length", std::to_string(data.task.max_length)},
                             {"classes", std::to_string(data.task.classes)},
                             {"git", build.commit},
                             {"compiler", build.compiler}};
  write_safetensors(config.record, record, metadata);
  session.log.info("loss {:.4f} at first and {:.4f} at the last of {} steps",
                   record.at("losses").to_vector<double>().front(), record.at("losses").to_vector<double>().back(),
                   config.run.steps);
  fmt::print("{}\n", config.record);
}

void run(lra::Config& config, Session& session) {
  if (session.rehearsal && !(config.table.empty() && config.analyse.empty())) return;
  if (!config.table.empty()) return print_table(config, session);
  if (!config.analyse.empty()) return lra::analyse(config, session);
  if (config.learn != lra::Goal::classes) {
    if (!config.run.predict.empty())
      fail("--predict: {} has not learnt the classes of its task (--learn)", config.run.predict);
    session.learns = session.fields.at("learn").text();
  }
  const lra::ArenaTask task = task_of(config);
  if (config.record.empty()) require_places(session);
  const TaskData data = data_of(config, task, session.log);
  if (!config.record.empty()) return record_steps(config, data, task, session);
  train_runs(session, plan_by(metrics_named({best_by(config, task)})[0], config.run, config.optim),
             [&] { return std::make_unique<Learner>(config.run, config.optim, problem_of(config, data, task)); });
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
       .refused = {},
       .of_run = {"analyse"},
       .of_one = {"record"}},
      static_cast<int>(words.size()), words.data(), run);
}
