// A run's best model asked again, without training: --evaluate RUN measures it on validation and test, --predict RUN
// writes what it says of each test example.
#pragma once

#include "experiments/common/run/run.h"

namespace bochner {

/// Does the caller want answers of a run that is there, rather than a new one?
bool asks_a_run(const RunOptions& options);

/// Gives them. The config must be that of the run, as Program loads it. Predictions are tab-separated, a line for each
/// example, in order: its number from 0, the answer, and the probability of each class where the answer is one. They
/// go to the model's answer_files() in the run's folder, or to --out, which is the file, or the folder of several.
void answer(const RunOptions& options, Trainable& model);

}  // namespace bochner
