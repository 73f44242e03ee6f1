// MNIST and Fashion-MNIST (SNNK 4.2, G.1.3, Fig. 9): 784-512-512-10 against the same with an SNNK layer in its middle.
#include "experiments/common/program/program.h"
#include "experiments/common/run/run.h"
#include "experiments/learners/rows/learner.h"
#include "experiments/learners/rows/mnist.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

void run(mnist::Config& config, Session& session) {
  const TableSplits data = config.load();
  for (const std::string& doubt : classifier::doubts(config.run, data)) session.log.warning("{}", doubt);
  const TrainPlan plan{.steps = config.run.steps, .evaluate_every = config.optim.evaluate_every};
  const MakeTrainable make = [&] {
    return std::make_unique<classifier::Learner>(config.run, config.model, config.optim, data);
  };
  if (config.sweep.asked()) return classifier::run_sweep(session, config.model, config.sweep, plan, make);
  train_runs(session, plan, make);
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<bochner::mnist::Config>(
      {"mnist", "MNIST and Fashion-MNIST: an MLP against the same with an SNNK layer in its middle",
       bochner::embedded_resources()},
      argc, argv, run);
}
