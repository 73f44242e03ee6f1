// UCI classification (SNNK 4.5): an MLP against the same with an SNNK layer in its middle.
#include "experiments/common/program/program.h"
#include "experiments/learners/rows/train.h"
#include "experiments/learners/rows/uci.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

void run(uci_experiment::Config& config, Session& session) {
  const TableSplits data = config.load([&](const std::string& line) { session.log.info("{}", line); },
                                       [&](const std::string& line) { session.log.warning("{}", line); });
  session.log.info("{}: {} + {} + {} rows of {} columns, {} classes; split {}", config.run.task, data.train.rows(),
                   data.valid.rows(), data.test.rows(), data.train.features.size(1), data.classes, data.rule);
  rows::train(session, config.model, config.optim, config.sweep, data, "loss");
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<bochner::uci_experiment::Config>(
      {"uci", "UCI classification: an MLP against the same with an SNNK layer in its middle",
       bochner::embedded_resources()},
      argc, argv, run);
}
