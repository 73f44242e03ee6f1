// UCI classification (SNNK 4.5): an MLP against the same with an SNNK layer in the middle.
#include "experiments/common/program/program.h"
#include "experiments/learners/rows/uci.h"

int main(int argc, char** argv) {
  return bochner::main_of<bochner::uci_experiment::Config>(
      {.name = "uci",
       .summary = "UCI classification: an MLP, and the same network with an SNNK layer in its middle",
       .resources = bochner::embedded_resources(),
       .stores_bf16 = true},
      argc, argv, bochner::rows::train);
}
