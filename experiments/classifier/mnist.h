// What `mnist` can be told.
#pragma once

#include "datasets/tabular.h"
#include "experiments/classifier/config.h"

namespace bochner::mnist {

struct Config {
  RunOptions run;
  classifier::ModelConfig model;
  classifier::OptimConfig optim;

  Config();
  void fields(Fields& f);
  /// The four IDX files in --data, plain or .gz: pixels / 255, less the mean and over the deviation of all training
  /// pixels; 25 % of the training images, the same number of each class as far as it goes, validate (SNNK F).
  TableSplits load() const;
};

}  // namespace bochner::mnist
