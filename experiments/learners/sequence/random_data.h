// Random sequences in place of a task's data: they show how much time and memory a run takes before the data are there.
#pragma once

#include "datasets/task.h"

namespace bochner::sequence {

/// Two batches for training, one for validation and one for the test. Sequences are as long as the task's longest, with
/// random tokens and no padding, and the classes take turns. The data are the same each time.
TaskData random_data(const Task& task, int64_t batch);

}  // namespace bochner::sequence
