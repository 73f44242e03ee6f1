// Uses a run's best model without training: --evaluate RUN measures it on validation and test, and --predict RUN writes
// its answer to each test example.
#pragma once

#include "engine/comm/communicator.h"
#include "experiments/common/config/options.h"
#include "experiments/common/run/state.h"
#include "experiments/common/run/trainer.h"

namespace bochner {

/// Whether the caller wants answers of an existing run instead of a new run.
bool asks_a_run(const RunOptions& options);

/// The best checkpoint of a run; of one that was stopped before it had one, the last.
State best_of(const std::filesystem::path& folder);

/// Gives them. The config must be that of the run, as Program loads it. Predictions are tab-separated, a line for each
/// example, in order: its number from 0 (of a table: among the rows of its file), the answer, and the probability of
/// each class, in their order, where the answer is one. They
/// go to the model's answer_files() in the run's folder, or to --out, which is the file, or the folder of several.
void answer(const RunOptions& options, Trainable& model, Communicator& comm = alone());

}  // namespace bochner
