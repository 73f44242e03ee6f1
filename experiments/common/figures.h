// For experiments that train nothing but measure something: figures, as results.json and report.html of a run folder.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/chart.h"
#include "experiments/common/program.h"

namespace bochner {

struct Figure {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Curve> curves;
  std::string note = {};  ///< what was measured, and what to look at
};

/// Writes config.ini, results.json and report.html into the run folder that the options name, and prints its path.
/// Curves get their colours here.
void write_figures(const Session& session, std::vector<Figure> figures);

}  // namespace bochner
