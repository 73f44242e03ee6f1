// Random sequences in the place of a task's data: to see how much time and memory a run takes before the data are
// there.
#pragma once

#include "datasets/task.h"

namespace bochner::sequence {

/// Two batches for training, one for validation and one for the test, of sequences as long as the task's longest, with
/// random tokens, none of them padding, and the classes in turn; the same each time.
TaskData random_data(const Task& task, int64_t batch);

}  // namespace bochner::sequence
