// The options of `mnist`.
#pragma once

#include "experiments/learners/rows/train.h"

namespace bochner::mnist {

/// Tasks mnist and fashion-mnist: the four IDX files in --data or its folder of the task's name, plain or .gz: pixels /
/// 255, less the mean and over the deviation of all training pixels; 25 % of the training images, the same number of
/// each class as far as it goes, validate (SNNK F).
struct Config : rows::Config {
  Config();
};

}  // namespace bochner::mnist
