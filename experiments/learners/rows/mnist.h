// The options of `mnist`.
#pragma once

#include "experiments/learners/rows/train.h"

namespace bochner::mnist {

/// Tasks mnist and fashion-mnist: reads the four IDX files, plain or compressed, from --data or its folder named after
/// the task. Pixels are divided by 255 and standardised by the mean and deviation of all training pixels. 25 % of the
/// training images, as evenly over the classes as possible, are for validation (SNNK F).
struct Config : rows::Config {
  Config();
};

}  // namespace bochner::mnist
