// Images: trains a Vision Transformer, or fits a pretrained one to them, whole or in part (SNNK Table 7, Figs. 10, 13).
#include "experiments/common/program/program.h"
#include "experiments/common/program/run.h"
#include "experiments/learners/adaptation/fitting.h"
#include "experiments/vit/problem.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

void run(vit::Config& config, Session& session) {
  config.take_folders(session.fields);
  config.model.check_top(config.vit_options().layers);  // before any data are read
  const auto say = messages_to(session.log).say;
  if (!config.exported.empty()) return vit::export_run(config, say);
  require_places(session);
  if (!std::filesystem::exists(config.run.data)) fail("--data: there is no folder {}", config.run.data);
  const vit::ImageTask& task = task_named(config.tasks, config.run.task);
  const auto sets = std::make_shared<const images::ImageSets>(task.load(config.run, messages_to(session.log)));
  config.settle_length(session.fields, config.run, config.optim, sets->train.count(), config.epochs);
  const auto problem = [&](const std::shared_ptr<TrunkStates>& memory) {
    return vit::problem_of(config, task, sets, memory, say);
  };
  fit_runs(
      session, plan_by(task, config.run, config.optim),
      {config.model, config.run, config.optim, config.pretrained, vit::states_of, vit::random_images(config), problem});
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<bochner::vit::Config>({.name = "vit",
                                                 .summary = "Images: a Vision Transformer from new weights, or a "
                                                            "pretrained one with adapters, poolers and blocks of SNNK",
                                                 .resources = bochner::embedded_resources(),
                                                 .stores_bf16 = true,
                                                 .of_run = {"export"}},
                                                argc, argv, run);
}
