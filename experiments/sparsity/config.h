// The options of `sparsity`: the pairs, the model, its training, and how gradients are measured.
#pragma once

#include "datasets/sparsity/sparsity.h"
#include "experiments/learners/sequence/config.h"

namespace bochner::sparsity {

struct PairsConfig {
  double relevant = 0;
  GeneratorOptions of;

  void fields(Fields& f);
};

struct GradientConfig {
  int64_t examples = 50;
  int64_t repetitions = 50;

  void fields(Fields& f);
};

struct Config {
  RunOptions run;
  PairsConfig pairs;
  sequence::ModelConfig model;
  OptimConfig optim;
  GradientConfig gradients;

  Config();
  void fields(Fields& f);

  /// With the task's share of relevant positions.
  GeneratorOptions generator() const;
  EncoderOptions encoder() const;

 private:
  /// A share that is set (--pairs.relevant) becomes the task.
  void name_task(bool given);
};

}  // namespace bochner::sparsity
