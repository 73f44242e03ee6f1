// The options of `mnist`.
#pragma once

#include "datasets/tables/tabular.h"
#include "experiments/learners/rows/config.h"
#include "experiments/learners/rows/sweep.h"

namespace bochner::mnist {

struct Config {
  RunOptions run;
  rows::ModelConfig model;
  SnnkOptimConfig optim;
  rows::SweepConfig sweep;

  Config();
  void fields(Fields& f);
  /// The four IDX files in --data or its folder of the task's name, plain or .gz: pixels / 255, less the mean and over
  /// the deviation of all training pixels; 25 % of the training images, the same number of each class as far as it
  /// goes, validate (SNNK F).
  TableSplits load() const;
};

}  // namespace bochner::mnist
