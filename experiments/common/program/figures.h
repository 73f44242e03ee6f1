// Figures of experiments that measure but do not train, written as results.json and report.html of a run folder.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/program/program.h"
#include "experiments/common/report/chart.h"
#include "experiments/common/report/table.h"

namespace bochner {

struct Figure {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Curve> curves;
  std::string note = {};  ///< what was measured, and what to look at
};

/// Numbers under a heading, as words.
struct NamedTable {
  std::string title;
  Table table;
};

/// An Error if options of training are given, or if the folder of the results holds a run or cannot be written.
void require_measurement(const Experiment& experiment, const Fields& fields, const RunOptions& options);

/// Writes config.ini, results.json and report.html into the run folder that the options name: the settings, figures,
/// tables, and what the papers print for this task (paper.csv). Prints the tables, the papers' numbers and the folder,
/// unless --quiet is given. Curves get their colours here.
void write_figures(const Session& session, std::vector<Figure> figures, const std::vector<NamedTable>& tables = {});

/// The machine's load averages over 1, 5 and 15 minutes and its number of processors, to judge measured times.
std::string machine_load();

}  // namespace bochner
