#include "experiments/common/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "experiments/common/program/build_info.h"
#include "experiments/common/program/progress.h"
#include "experiments/common/report/chart.h"
#include "experiments/common/report/table.h"

namespace bochner {
namespace {

constexpr const char* kHead = R"(<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --bg: #ffffff; --fg: #1c1e21; --dim: #60656c; --line: #d8dce1; --band: #f4f6f8;
  --c0: #1f6fb4; --c1: #c4501b; --c2: #2b8a3e; --c3: #8e44ad; --c4: #b8860b; --c5: #007f86; --c6: #b0235f; --c7: #555b61; }
@media (prefers-color-scheme: dark) { :root { --bg: #16181b; --fg: #e6e8ea; --dim: #9aa1a9; --line: #363b41;
  --band: #1f2327; --c0: #6cb2f0; --c1: #f2925f; --c2: #6fcf83; --c3: #c792ea; --c4: #e2bb4f; --c5: #4ecbd2;
  --c6: #f07fae; --c7: #b3b9c0; } }
body { background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p, .note { color: var(--dim); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } .wide { overflow-x: auto; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } thead th { background: var(--band); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1rem; }
svg { width: 100%; height: auto; } svg text { fill: var(--fg); font: 12px system-ui, sans-serif; }
svg .title { font-weight: 600; font-size: 14px; } svg .tick { fill: var(--dim); } svg .grid { stroke: var(--line); }
svg .curve { fill: none; stroke-width: 1.8; }
pre { background: var(--band); overflow-x: auto; padding: .8rem; font-size: 13px; }
</style>
)";

std::string name_of_run(const RunRecord& run, const std::vector<RunRecord>& all) {
  std::string name = run.attention;
  const auto differs = [&](auto member) {
    return std::any_of(all.begin(), all.end(), [&](const RunRecord& other) { return other.*member != run.*member; });
  };
  if (differs(&RunRecord::task)) name = run.task + ", " + name;
  if (differs(&RunRecord::protocol)) name += ", " + run.protocol;
  if (differs(&RunRecord::seed)) name += fmt::format(", seed {}", run.seed);
  return name;
}

/// Accuracies are shown in percent, as papers print them.
bool is_share(const std::string& metric) { return metric.find("accuracy") != std::string::npos; }

std::string shown(const std::string& metric, double value) {
  return is_share(metric) ? fmt::format("{:.2f}", 100 * value) : fmt::format("{:.4g}", value);
}

std::string bytes_text(int64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  return mebibytes < 1024 ? fmt::format("{:.1f} MiB", mebibytes) : fmt::format("{:.2f} GiB", mebibytes / 1024);
}

std::string paper_text(const RunRecord& run, const PaperTable& papers) {
  const PaperNumber* const number = papers.find(run.protocol, run.task, run.attention);
  if (number == nullptr) return "–";
  std::string text = fmt::format("{:g}", number->value);
  if (number->deviation) text += fmt::format(" ± {:g}", *number->deviation);
  return text + fmt::format(" ({})", number->source);
}

/// The metrics of the test, accuracies first.
std::vector<std::string> tested(const std::vector<RunRecord>& runs) {
  std::vector<std::string> metrics;
  for (const RunRecord& run : runs) {
    for (const auto& [name, value] : run.result.test) {
      if (std::find(metrics.begin(), metrics.end(), name) == metrics.end()) metrics.push_back(name);
    }
  }
  std::stable_partition(metrics.begin(), metrics.end(), is_share);
  return metrics;
}

/// What each run says of guessing, each once: runs on the same data say the same.
std::vector<Baseline> baselines_of(const std::vector<RunRecord>& runs) {
  std::vector<Baseline> all;
  for (const RunRecord& run : runs) {
    for (const Baseline& baseline : run.result.baselines) {
      const auto same = [&](const Baseline& other) {
        return other.name == baseline.name && other.test == baseline.test;
      };
      if (std::none_of(all.begin(), all.end(), same)) all.push_back(baseline);
    }
  }
  return all;
}

/// With `brief`, what fits a terminal.
Table results_table(const std::vector<RunRecord>& runs, const PaperTable& papers, bool brief) {
  const std::vector<std::string> metrics = tested(runs);
  Table table;
  table.head = {brief ? "" : "run"};
  for (const std::string& metric : metrics) {
    table.head.push_back(fmt::format("test {}{}", metric, is_share(metric) ? " %" : ""));
    if (!brief) table.head.emplace_back("of the last step");
  }
  if (!brief) table.head.emplace_back("paper");
  for (const char* name : {"best step", "steps", "parameters", "steps/s"}) table.head.emplace_back(name);
  if (!brief) table.head.emplace_back("samples/s");
  for (const char* name : {"training", "peak memory"}) table.head.emplace_back(name);
  const auto put = [&](std::vector<std::string>& row, const Metrics& values, const std::string& metric) {
    const double* const value = find_metric(values, metric);
    row.push_back(value == nullptr ? "–" : shown(metric, *value));
  };
  for (const RunRecord& run : runs) {
    const TrainResult& result = run.result;
    std::vector<std::string> row = {name_of_run(run, runs)};
    for (const std::string& metric : metrics) {
      put(row, result.test, metric);
      if (!brief) put(row, result.test_last, metric);
    }
    if (!brief) row.push_back(paper_text(run, papers));
    for (const int64_t number : {result.best_step, result.steps, result.parameters}) {
      row.push_back(fmt::format("{}", number));
    }
    row.push_back(fmt::format("{:.3g}", result.steps_per_second()));
    if (!brief) row.push_back(fmt::format("{:.4g}", result.samples_per_second()));
    row.insert(row.end(), {clock_text(result.train_seconds), bytes_text(result.peak_memory_bytes)});
    table.rows.push_back(std::move(row));
  }
  for (const Baseline& baseline : baselines_of(runs)) {
    std::vector<std::string> row = {baseline.name};
    for (const std::string& metric : metrics) {
      put(row, baseline.test, metric);
      if (!brief) row.emplace_back();
    }
    row.resize(table.head.size());
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// All that the papers report for the tasks of these runs.
std::string papers_table(const std::vector<RunRecord>& runs, const PaperTable& papers) {
  std::set<std::string> tasks;
  for (const RunRecord& run : runs) tasks.insert(run.task);
  Table table{{"attention", "task", "metric", "value", "protocol", "source"}, {}};
  for (const PaperNumber& number : papers.numbers()) {
    if (!tasks.contains(number.task)) continue;
    table.rows.push_back({number.attention, number.task, number.metric, fmt::format("{:g}", number.value),
                          number.protocol, number.source});
  }
  if (table.rows.empty()) return "";
  return fmt::format("<h2>What the papers report for {}</h2>\n<div class=\"wide\">{}</div>\n",
                     tasks.size() == 1 ? "this task" : "these tasks", table.html());
}

std::string chart_of(const std::string& metric, const std::vector<RunRecord>& runs) {
  std::vector<Curve> curves;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string prefix = runs.size() == 1 ? "" : name_of_run(runs[i], runs) + ", ";
    Curve train{prefix + "train", static_cast<int>(i), true, {}};
    Curve valid{prefix + "valid", static_cast<int>(i), false, {}};
    for (const MetricsLine& line : runs[i].curves) {
      const double* const value = find_metric(line.metrics, metric);
      if (value == nullptr) continue;
      (line.split == "train" ? train : valid).points.emplace_back(static_cast<double>(line.step), *value);
    }
    for (Curve* curve : {&valid, &train}) {
      if (!curve->points.empty()) curves.push_back(std::move(*curve));
    }
  }
  return curves.empty() ? "" : line_chart(metric, "step", curves);
}

/// The metrics that are measured in validation, the loss first.
std::vector<std::string> charted(const std::vector<RunRecord>& runs) {
  std::vector<std::string> metrics = {"loss"};
  for (const RunRecord& run : runs) {
    for (const MetricsLine& line : run.curves) {
      if (line.split != "valid") continue;
      for (const auto& [name, value] : line.metrics) {
        if (std::find(metrics.begin(), metrics.end(), name) == metrics.end()) metrics.push_back(name);
      }
    }
  }
  return metrics;
}

/// What training gave: the table of results, and the curves.
std::string results_of(const std::vector<RunRecord>& runs, const PaperTable& papers) {
  std::string html = "<h2>Results</h2>\n<div class=\"wide\">" + results_table(runs, papers, false).html() + "</div>\n";
  html +=
      "<p>Test results are those of the checkpoint that was best in validation; those of the last step are beside "
      "them. A paper's number was reached under the paper's own "
      "protocol; it can be compared with a run only if the data and the settings are the same.</p>\n";
  html += "<h2>Curves</h2>\n<div class=\"charts\">\n";
  for (const std::string& metric : charted(runs)) html += chart_of(metric, runs);
  return html + "</div>\n";
}

std::string settings(const std::vector<RunRecord>& runs) {
  std::string html = "<h2>Settings</h2>\n";
  for (const RunRecord& run : runs) {
    std::string protocol = run.protocol;
    for (const auto& [name, value] : run.overrides) protocol += fmt::format(", but {} = {}", name, value);
    html += fmt::format("<details{}><summary>{} (protocol: {})</summary><pre>{}</pre></details>\n",
                        runs.size() == 1 ? " open" : "", html_escaped(name_of_run(run, runs)), html_escaped(protocol),
                        html_escaped(run.config));
  }
  return html;
}

}  // namespace

std::string results_text(const std::vector<RunRecord>& runs, const PaperTable& papers) {
  return results_table(runs, papers, true).text();
}

std::vector<ReportFigure> figures_of(const Experiment& experiment, const std::vector<RunRecord>& runs) {
  return experiment.figures ? experiment.figures(runs) : std::vector<ReportFigure>{};
}

std::string report_html(const std::string& title, const std::vector<RunRecord>& runs, const PaperTable& papers,
                        const std::vector<ReportFigure>& figures) {
  std::string html =
      fmt::format("<!doctype html>\n<html lang=\"en\">\n<head>\n<title>{0}</title>\n{1}</head>\n<body>\n<h1>{0}</h1>\n",
                  html_escaped(title), kHead);
  if (!runs.empty()) html += results_of(runs, papers);
  for (const ReportFigure& figure : figures) {
    html += fmt::format("<h2>{}</h2>\n{}\n", html_escaped(figure.title), figure.html);
  }
  if (!runs.empty()) html += papers_table(runs, papers) + settings(runs);
  const BuildInfo build = build_info();
  const std::string device = runs.empty() ? "" : fmt::format(" on {}, {}", runs[0].device, runs[0].precision);
  html += html_escaped(fmt::format("Bochner {} ({}), {}, {}; BLAS: {}{}", build.version, build.commit, build.compiler,
                                   build.flags, build.blas, device))
              .insert(0, "<p class=\"note\">") +
          "</p>\n</body>\n</html>\n";
  return html;
}

}  // namespace bochner
