// The tasks of the Long Range Arena, each in a file of its own.
#pragma once

#include "experiments/learners/task.h"

namespace bochner::lra {

using ArenaTask = TaskEntry<TaskData>;

ArenaTask listops_task();
ArenaTask pathfinder_task();
ArenaTask pathx_task();
ArenaTask text_task();
ArenaTask image_task();
ArenaTask retrieval_task();
ArenaTask films_task();

/// Baselines for a task of ByteTexts, from bags of bytes and of words (datasets/text/bags.h).
std::vector<Baseline> bags_of(const TaskData& data);

/// All tasks, in the order of --help; the first is the default.
std::vector<ArenaTask> arena_tasks();

}  // namespace bochner::lra
