// MNIST and Fashion-MNIST (SNNK 4.2, G.1.3, Fig. 9): 784-512-512-10 against the same with an SNNK layer in its middle.
#include "experiments/common/program/program.h"
#include "experiments/learners/rows/mnist.h"
#include "experiments/learners/rows/train.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

void run(mnist::Config& config, Session& session) {
  const TableSplits data = config.load();
  rows::train(session, config.model, config.optim, config.sweep, data, "accuracy");
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<bochner::mnist::Config>(
      {"mnist", "MNIST and Fashion-MNIST: an MLP against the same with an SNNK layer in its middle",
       bochner::embedded_resources()},
      argc, argv, run);
}
