// Tables of finished runs as papers print them: mechanisms by tasks, with the mean over seeds in each cell and the
// paper's number beside it.
//
//   const FoundRuns found = runs_below({"runs/lra"}, "lra");
//   for (const TaskTable& table : task_tables(found.runs, tasks, attentions, papers)) ...
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/common/report/table.h"
#include "experiments/common/run/paper.h"
#include "experiments/common/run/results.h"

namespace bochner {

struct FoundRuns {
  std::vector<RunRecord> runs;
  std::vector<std::string> unfinished;  ///< folders that hold a run without results
};

/// The runs of an experiment in these folders and below them, each once, by path. An Error if a folder is missing or
/// holds no runs, or if two runs have the same protocol, task, mechanism and seed: a mean must not count a seed twice.
FoundRuns runs_below(const std::vector<std::string>& folders, const std::string& experiment);

/// A table for one protocol; settings that differ from it count as another protocol.
struct TaskTable {
  std::string title;                 ///< `skyformer with steps = 300`
  Table numbers;                     ///< a row for each mechanism; for each task, our number and the paper's
  Table steps;                       ///< how many were made, with how many seeds; last, on how many test examples
  std::vector<std::string> sources;  ///< of the papers' numbers
  std::vector<std::string> remarks;  ///< of the runs, such as that fewer test examples were at hand than were published
};

/// Test accuracies in percent. `tasks` and `attentions` give the order. The mean over the tasks, without a deviation,
/// is given for mechanisms that have a number in each column.
std::vector<TaskTable> task_tables(const std::vector<RunRecord>& runs, const std::vector<std::string>& tasks,
                                   const std::vector<std::string>& attentions, const PaperTable& papers);

/// All tables as `markdown`, `latex` (tabular environments) or `html` (a page of its own, with the runs' curves).
std::string written(const std::vector<TaskTable>& tables, const FoundRuns& found, const std::string& format);

}  // namespace bochner
