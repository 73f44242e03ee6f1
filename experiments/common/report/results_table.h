// The tables of a report on runs: their results next to the papers' numbers, their costs, and what papers report.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/report/table.h"
#include "experiments/common/run/paper.h"
#include "experiments/common/run/results.h"

namespace bochner {

/// Test results of each run and means over several seeds, next to those of the last step, if they differ, and the
/// papers' numbers; below them, the results without learning.
Table results_table(const std::vector<RunRecord>& runs, const PaperTable& papers);

/// Steps, parameters, speed, time and memory of each run.
Table costs_table(const std::vector<RunRecord>& runs);

/// All that the papers report for the tasks of these runs; columns whose value is the same in each row are omitted.
Table reported_table(const std::vector<RunRecord>& runs, const PaperTable& papers);

/// Measurements other than the metrics (RunRecord::derived): a row for each name, a column for each group of runs. No
/// rows if there are none.
Table derived_table(const std::vector<RunRecord>& runs);

/// All of these for the terminal, 80 columns wide if names are short, followed by the sentences.
std::string results_text(const std::vector<RunRecord>& runs);

}  // namespace bochner
