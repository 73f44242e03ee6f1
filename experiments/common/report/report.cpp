#include "experiments/common/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "experiments/common/process/build_info.h"
#include "experiments/common/report/chart.h"
#include "experiments/common/report/headline.h"
#include "experiments/common/report/learning_curves.h"
#include "experiments/common/report/page.h"
#include "experiments/common/report/results_table.h"
#include "experiments/common/report/runs_shown.h"

namespace bochner {
namespace {

constexpr size_t kMostShown = 12;  ///< rows of papers' numbers that are not collapsed

std::string scrollable(const Table& table) { return "<div class=\"wide\">" + table.html() + "</div>\n"; }

/// The results of training: a sentence, a table and curves.
std::string results_of(const std::vector<RunRecord>& runs, const PaperTable& papers) {
  std::string html;
  for (const auto& [result, meaning] : headlines(runs)) {
    html +=
        fmt::format("<p class=\"lead\"><strong>{}</strong><br>{}</p>\n", html_escaped(result), html_escaped(meaning));
  }
  const Table table = results_table(runs, papers);
  html += "<h2>Results</h2>\n" + scrollable(table);
  html += "<p>Test results are those of the checkpoint that was best in validation";
  const auto has = [&](const char* head) {
    return std::find(table.head.begin(), table.head.end(), head) != table.head.end();
  };
  if (has("last step")) html += "; those of the last step are beside them";
  html += ".";
  if (has("paper")) {
    html +=
        " A paper's number was reached under the paper's own protocol; it can be compared with a run only if the data "
        "and the settings are the same.";
  }
  html += "</p>\n";
  if (const std::string curves = learning_curves(runs); !curves.empty())
    html += "<h2>Curves</h2>\n<div class=\"charts\">\n" + curves + "</div>\n";
  html += "<h2>Time and memory</h2>\n" + scrollable(costs_table(runs));
  const Table derived = derived_table(runs);
  return derived.rows.empty() ? html : html + "<h2>Also measured</h2>\n" + scrollable(derived);
}

std::string reported_by_papers(const std::vector<RunRecord>& runs, const PaperTable& papers) {
  const Table table = reported_table(runs, papers);
  if (table.rows.empty()) return "";
  std::set<std::string> tasks;
  for (const RunRecord& run : runs) tasks.insert(run.task);
  return fmt::format("<h2>What the papers report for {}</h2>\n<details{}><summary>{} numbers</summary>{}</details>\n",
                     html_escaped(fmt::format("{}", fmt::join(tasks, ", "))),
                     table.rows.size() <= kMostShown ? " open" : "", table.rows.size(), scrollable(table));
}

std::string settings(const std::vector<RunRecord>& runs) {
  std::string html = "<h2>Settings</h2>\n";
  for (const RunRecord& run : runs) {
    html += fmt::format("<details{}><summary>{} (protocol: {})</summary><pre>{}</pre></details>\n",
                        runs.size() == 1 ? " open" : "", html_escaped(name_of_run(run, runs)),
                        html_escaped(protocol_of(run)), html_escaped(run.config));
  }
  return html;
}

}  // namespace

std::vector<ReportFigure> figures_of(const Experiment& experiment, const std::vector<RunRecord>& runs) {
  return experiment.figures ? experiment.figures(runs) : std::vector<ReportFigure>{};
}

std::string report_html(const std::string& title, const std::vector<RunRecord>& runs, const PaperTable& papers,
                        const std::vector<ReportFigure>& figures) {
  std::string html;
  if (!runs.empty()) html += results_of(runs, papers);
  for (const ReportFigure& figure : figures) {
    html += fmt::format("<h2>{}</h2>\n{}\n", html_escaped(figure.title), figure.html);
  }
  if (!runs.empty()) html += reported_by_papers(runs, papers) + settings(runs);
  const BuildInfo build = build_info();
  const std::string device = runs.empty() ? "" : fmt::format(" on {}, {}", runs[0].device, runs[0].precision);
  html += html_escaped(fmt::format("Bochner {} ({}), {}, {}; BLAS: {}{}", build.version, build.commit, build.compiler,
                                   build.flags, build.blas, device))
              .insert(0, "<p class=\"note\">") +
          "</p>\n";
  return html_page(title, html);
}

}  // namespace bochner
