// report.html: one self-contained page on one run, or on several side by side: the main result in a sentence, results
// next to the papers' numbers, curves, speed and memory, and settings.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/config/experiment.h"
#include "experiments/common/run/paper.h"
#include "experiments/common/run/results.h"

namespace bochner {

/// A picture or table that an experiment adds: a heading and a piece of HTML.
struct ReportFigure {
  std::string title;
  std::string html;
};

/// What the experiment itself adds to a report on these runs.
std::vector<ReportFigure> figures_of(const Experiment& experiment, const std::vector<RunRecord>& runs);

std::string report_html(const std::string& title, const std::vector<RunRecord>& runs, const PaperTable& papers,
                        const std::vector<ReportFigure>& figures = {});

}  // namespace bochner
