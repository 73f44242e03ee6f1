// A task as an entry in its program's list; the program itself names no task. To add one, write a function that returns
// its entry, in a file of its own, declare it in the program's tasks.h, and add a line to the list
// (experiments/lra/tasks.cpp).
//
//   TaskEntry<TaskData> text_task() {
//     const auto options = std::make_shared<TextConfig>();
//     return {.name = "text",
//             .fields = [options](Fields& f) { f.group("text", *options); },
//             .about = [options](const RunOptions& run) { return text::task(...); },
//             .load = [options](const RunOptions& run, const Messages& messages) { return text::load(...); }};
//   }
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "datasets/say.h"
#include "datasets/task.h"
#include "engine/error.h"
#include "experiments/common/config/options.h"
#include "experiments/common/process/log.h"
#include "experiments/common/run/trainer.h"
#include "experiments/learners/learner.h"

namespace bochner {

/// Receivers of messages while data are read or generated.
struct Messages {
  Say say;   ///< progress
  Say warn;  ///< warnings
};
inline Messages messages_to(Log& log) {
  return {[&log](const std::string& line) { log.info("{}", line); },
          [&log](const std::string& line) { log.warning("{}", line); }};
}

template <class Data>
struct TaskEntry {
  std::string name;  ///< as in --task=NAME
  /// Adds the options of this task, in a group of its name.
  std::function<void(Fields&)> fields = {};
  /// What a model must know of the data before they are read or generated; undefined if only the data tell it.
  std::function<Task(const RunOptions&)> about = {};
  std::function<Data(const RunOptions&, const Messages&)> load = {};
  /// Baselines without learning, in addition to the majority class.
  std::function<std::vector<Baseline>(const Data&)> baselines = {};
  std::vector<std::string> metrics = {"loss", "accuracy"};  ///< metrics_named()
  std::string best_by = "accuracy";                         ///< the one that chooses the best model
};

template <class Data>
std::vector<std::string> names_of(const std::vector<TaskEntry<Data>>& tasks) {
  std::vector<std::string> names;
  for (const TaskEntry<Data>& task : tasks) names.push_back(task.name);
  return names;
}

/// The entry of that name. An Error if there is none.
template <class Data>
const TaskEntry<Data>& task_named(const std::vector<TaskEntry<Data>>& tasks, const std::string& name) {
  const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const auto& task) { return task.name == name; });
  if (found == tasks.end()) fail("--task={}: there is no such task", name);
  return *found;
}

/// The metric that chooses the best model.
template <class Data>
TrainPlan plan_by(const TaskEntry<Data>& task, const RunOptions& run, const OptimConfig& optim) {
  return plan_by(metrics_named({task.best_by})[0], run, optim);
}

/// The fields of every task, which count only if that task is chosen.
template <class Data>
void fields_of(const std::vector<TaskEntry<Data>>& tasks, Fields& f) {
  for (const TaskEntry<Data>& task : tasks) {
    const size_t before = f.all().size();
    if (task.fields) task.fields(f);
    f.only_behind(before, "with --task=" + task.name,
                  [name = task.name, &chosen = f.at("task")] { return chosen.text() == name; });
  }
}

}  // namespace bochner
