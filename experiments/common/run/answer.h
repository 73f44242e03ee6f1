// Uses a run's best model without training: --evaluate RUN measures it on validation and test set, and --predict RUN
// writes its answer to each test example.
#pragma once

#include "engine/comm/communicator.h"
#include "experiments/common/config/options.h"
#include "experiments/common/run/state.h"
#include "experiments/common/run/trainer.h"

namespace bochner {

/// Whether the options ask for answers of an existing run instead of a new run.
bool asks_a_run(const RunOptions& options);

/// The best checkpoint of a run; the last one if the run was stopped before it had a best one.
State best_of(const std::filesystem::path& folder);

/// Answers as the options ask. The config must be that of the run, as Program loads it. Predictions are tab-separated,
/// a line for each example, in order: its number from 0 (for a table, among the rows of its file), the answer, and, if
/// the answer is a class, the probability of each class, in the order of the classes. They go to the model's
/// answer_files() in the run's folder, or to --out, which names the file, or the folder if there are several.
void answer(const RunOptions& options, Trainable& model, Communicator& comm = alone());

}  // namespace bochner
