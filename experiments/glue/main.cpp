// GLUE: fits a pretrained BERT to a task, whole or in part, and answers the test set for the server.
#include "experiments/common/program/program.h"
#include "experiments/common/run/answer.h"
#include "experiments/glue/cost.h"
#include "experiments/glue/export.h"
#include "experiments/glue/methods.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

/// Refuses an impossible model before any data are read.
void check(const glue::Config& config) {
  const BertOptions options = glue::bert_options(config, 2);
  if (config.model.method == "uptrain" && config.model.top > options.layers) {
    fail("--model.top={}: the model has {} blocks", config.model.top, options.layers);
  }
}

void run(glue::Config& config, Session& session) {
  config.take_adapter(session.fields);
  check(config);
  const Say say = messages_to(session.log).say;
  if (!config.exported.empty()) return glue::export_run(config, say);
  if (!std::filesystem::exists(config.run.data)) fail("--data: there is no folder {}", config.run.data);
  const glue::GlueTask& task = task_named(config.tasks, config.run.task);
  const auto texts = std::make_shared<const glue::Texts>(task.load(config.run, messages_to(session.log)));
  config.settle(session.fields, texts->train.tokens->size());
  config.optim.schedule_of(config.run.steps);
  std::shared_ptr<Module> model;  // of the latest run
  std::set<std::string> frozen;
  session.draw = [&](const RunRecord& record) {
    glue::write_adapter(config, dynamic_cast<Bert&>(*model), frozen, record.folder);
    return std::vector<ReportFigure>();
  };
  session.measure = [&](const RunRecord&) { return glue::cost_of(config, dynamic_cast<Bert&>(*model)); };
  train_runs(session, plan_by(task, config.run, config.optim), [&] {
    Problem problem = glue::problem_of(config, task, texts, say);
    model = problem.model;
    frozen = problem.base.tensors;
    if (config.model.ridge >= 0 && !asks_a_run(config.run)) glue::fit_bundle(config, problem, texts->outputs());
    return std::make_unique<Learner>(config.run, config.optim, std::move(problem));
  });
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<bochner::glue::Config>(
      {.name = "glue",
       .summary = "GLUE: fits a pretrained BERT to a task, whole or by adapters, poolers and blocks of SNNK",
       .resources = bochner::embedded_resources(),
       .stores_bf16 = true,
       .of_run = {"export"}},
      argc, argv, run);
}
