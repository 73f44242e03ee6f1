// What every program does that classifies rows of numbers (uci, mnist), once it has its data.
#pragma once

#include "datasets/tables/tabular.h"
#include "experiments/learners/rows/config.h"
#include "experiments/learners/rows/sweep.h"

namespace bochner::rows {

/// Trains one network a seed, or those that the sweep asks for; the best of each is chosen by a metric of validation.
void train(Session& session, ModelConfig& model, const SnnkOptimConfig& optim, SweepConfig& sweep,
           const TableSplits& data, const std::string& best_by);

}  // namespace bochner::rows
