// GLUE: fits a pretrained BERT to a task, whole or in part, and answers the test set for the server.
#include "experiments/common/program/program.h"
#include "experiments/common/program/run.h"
#include "experiments/glue/export.h"
#include "experiments/learners/adaptation/fitting.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

void run(glue::Config& config, Session& session) {
  config.model.take(config.adapter, session.fields);
  const BertOptions options = glue::bert_options(config, 2);  // before any data are read
  config.model.check_top(options.layers);
  const Say say = messages_to(session.log).say;
  if (!config.exported.empty()) return glue::export_run(config, say);
  require_places(session);
  if (!std::filesystem::exists(config.run.data)) fail("--data: there is no folder {}", config.run.data);
  const glue::GlueTask& task = task_named(config.tasks, config.run.task);
  const auto texts = std::make_shared<const glue::Texts>(task.load(config.run, messages_to(session.log)));
  if (glue::reads_labelled(config.run)) config.settle(session.fields, texts->train.tokens->size());
  const auto problem = [&](const std::shared_ptr<TrunkStates>& memory) {
    return glue::problem_of(config, task, texts, memory, say);
  };
  fit_runs(session, plan_by(task, config.run, config.optim),
           {config.model, config.run, config.optim, config.text->pretrained, glue::states_of,
            glue::random_texts(config, options.vocabulary), problem});
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
