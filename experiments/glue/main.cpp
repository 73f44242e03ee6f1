// GLUE: fits a pretrained BERT to a task, whole or in part, and answers the test set for the server.
#include "experiments/common/program/program.h"
#include "experiments/common/run/run.h"
#include "experiments/glue/problem.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

/// Refuses an impossible model before any data are read.
void check(const glue::Config& config) {
  const BertOptions options = glue::bert_options(config, 2);
  if (!std::filesystem::exists(config.run.data)) fail("--data: there is no folder {}", config.run.data);
  if (config.model.method == "uptrain" && config.model.top > options.layers) {
    fail("--model.top={}: the model has {} blocks", config.model.top, options.layers);
  }
}

void run(glue::Config& config, Session& session) {
  check(config);
  const glue::GlueTask& task = task_named(config.tasks, config.run.task);
  const auto texts = std::make_shared<const glue::Texts>(task.load(config.run, messages_to(session.log)));
  config.settle(session.fields, texts->train.tokens->size());
  config.optim.schedule_of(config.run.steps);
  const Say say = messages_to(session.log).say;
  train_runs(session, plan_by(task, config.run, config.optim), [&] {
    return std::make_unique<Learner>(config.run, config.optim, glue::problem_of(config, task, texts, say));
  });
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<bochner::glue::Config>(
      {.name = "glue",
       .summary = "GLUE: fits a pretrained BERT to a task, whole or by adapters, poolers and blocks of SNNK",
       .resources = bochner::embedded_resources(),
       .stores_bf16 = true},
      argc, argv, run);
}
