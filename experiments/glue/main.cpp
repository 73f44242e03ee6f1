// GLUE: fits a pretrained BERT to a task, whole or in part, and answers the test set for the server.
#include "experiments/common/program/program.h"
#include "experiments/common/program/run.h"
#include "experiments/common/run/answer.h"
#include "experiments/glue/export.h"
#include "experiments/learners/adaptation/adapted.h"
#include "experiments/learners/adaptation/cost.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

/// What its scores of 8 texts of --max-length random tokens cost.
Metrics cost(const glue::Config& config, Bert& bert) {
  Generator draws(1);
  const Tensor ids =
      integers({8, config.text->max_length}, 0, bert.options().vocabulary, draws).to(Device::named(config.run.device));
  return cost_of(bert,
                 [&](Context& context) { return bert.class_scores(bert.pool(bert.forward({ids}, context)), context); });
}

void run(glue::Config& config, Session& session) {
  config.model.take(config.adapter, session.fields);
  config.model.check_top(glue::bert_options(config, 2).layers);  // before any data are read
  const Say say = messages_to(session.log).say;
  if (!config.exported.empty()) return glue::export_run(config, say);
  require_places(session);
  if (!std::filesystem::exists(config.run.data)) fail("--data: there is no folder {}", config.run.data);
  const glue::GlueTask& task = task_named(config.tasks, config.run.task);
  const auto texts = std::make_shared<const glue::Texts>(task.load(config.run, messages_to(session.log)));
  config.settle(session.fields, texts->train.tokens->size());
  config.optim.schedule_of(config.run.steps);
  const auto memory = std::make_shared<TrunkStates>(say, session.comm);
  std::shared_ptr<Module> model;  // of the latest run
  std::set<std::string> frozen;
  session.after_run = [&](RunRecord& record) {
    write_adapter(config.model, config.run, dynamic_cast<Bert&>(*model), frozen, config.text->pretrained,
                  record.folder);
    record.derived = cost(config, dynamic_cast<Bert&>(*model));
    return std::vector<ReportFigure>();
  };
  train_runs(session, plan_by(task, config.run, config.optim), [&] {
    Problem problem = glue::problem_of(config, task, texts, memory, say);
    model = problem.model;
    frozen = problem.base.tensors;
    if (config.model.ridge >= 0 && !asks_a_run(config.run)) {
      fit_bundle(config.model, config.run, problem, [&](const Examples& batch, Context& context) {
        return glue::states_of(dynamic_cast<Bert&>(*model), batch, context);
      });
    }
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
