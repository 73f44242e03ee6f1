// The tables of a report of runs: what they reached beside the papers' numbers, what they took, what papers report.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/report/paper.h"
#include "experiments/common/report/table.h"
#include "experiments/common/run/results.h"

namespace bochner {

/// Test results of each run and, of several seeds, their means; beside them those of the last step, where they are
/// others, and the papers' numbers; below them what is reached without learning.
Table results_table(const std::vector<RunRecord>& runs, const PaperTable& papers);

/// Steps, parameters, speed, time and memory of each run.
Table costs_table(const std::vector<RunRecord>& runs);

/// All that the papers report for the tasks of these runs; columns that say the same in each row are left out.
Table reported_table(const std::vector<RunRecord>& runs, const PaperTable& papers);

/// Results and costs for the terminal, 80 columns wide where names are short, and below them the sentences.
std::string results_text(const std::vector<RunRecord>& runs);

}  // namespace bochner
