// UCI classification (SNNK 4.5): an MLP against the same with an SNNK layer in its middle.
#include "experiments/common/program/program.h"
#include "experiments/common/run/run.h"
#include "experiments/learners/rows/learner.h"
#include "experiments/learners/rows/uci.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

void run(uci_experiment::Config& config, Session& session) {
  const TableSplits data = config.load([&](const std::string& line) { session.log.info("{}", line); },
                                       [&](const std::string& line) { session.log.warning("{}", line); });
  session.log.info("{}: {} + {} + {} rows of {} columns, {} classes; split {}", config.run.task, data.train.rows(),
                   data.valid.rows(), data.test.rows(), data.train.features.size(1), data.classes, data.rule);
  for (const std::string& note : data.notes) session.log.info("{}", note);
  for (const std::string& doubt : classifier::doubts(config.run, data)) session.log.warning("{}", doubt);
  TrainPlan plan{.steps = config.run.steps, .evaluate_every = config.optim.evaluate_every};
  plan.best_by = "loss";
  plan.higher_is_better = false;
  const MakeTrainable make = [&] {
    return std::make_unique<classifier::Learner>(config.run, config.model, config.optim, data);
  };
  if (config.sweep.asked()) return classifier::run_sweep(session, config.model, config.sweep, plan, make);
  train_runs(session, plan, make);
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<bochner::uci_experiment::Config>(
      {"uci", "UCI classification: an MLP against the same with an SNNK layer in its middle",
       bochner::embedded_resources()},
      argc, argv, run);
}
