// MNIST and Fashion-MNIST (SNNK 4.2, G.1.3, Fig. 9): 784-512-512-10 against the same with an SNNK layer in the middle.
#include "experiments/common/program/program.h"
#include "experiments/learners/rows/mnist.h"

int main(int argc, char** argv) {
  return bochner::main_of<bochner::mnist::Config>(
      {.name = "mnist",
       .summary = "MNIST and Fashion-MNIST: an MLP, and the same network with an SNNK layer in its middle",
       .resources = bochner::embedded_resources(),
       .stores_bf16 = true},
      argc, argv, bochner::rows::train);
}
