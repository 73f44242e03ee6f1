// The options of `mnist`.
#pragma once

#include "experiments/learners/rows/train.h"

namespace bochner::mnist {

/// Tasks mnist and fashion-mnist: the four IDX files in --data or its folder of the task's name, plain or packed:
/// pixels / 255, standardised by the mean and deviation of all training pixels. 25 % of the training images, as evenly
/// over the classes as possible, are for validation (SNNK F).
struct Config : rows::Config {
  Config();
};

}  // namespace bochner::mnist
