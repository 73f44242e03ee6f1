// The options of `uci`.
#pragma once

#include "experiments/learners/rows/train.h"

namespace bochner::uci_experiment {

/// Tasks covertype, higgs, hepmass and adult, each read from the files in its archive, and csv, which reads any table.
struct Config : rows::Config {
  Config();
};

}  // namespace bochner::uci_experiment
