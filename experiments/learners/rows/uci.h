// The options of `uci`.
#pragma once

#include "experiments/learners/rows/train.h"

namespace bochner::uci_experiment {

/// Tasks covertype, higgs, hepmass and adult, each of the files that its archive has, and csv: any table.
struct Config : rows::Config {
  Config();
};

}  // namespace bochner::uci_experiment
