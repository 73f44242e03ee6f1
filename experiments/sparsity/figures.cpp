#include "experiments/sparsity/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "experiments/common/report/chart.h"
#include "experiments/common/report/spread.h"
#include "experiments/common/report/table.h"

namespace bochner::sparsity {
namespace {

constexpr int kMarks[] = {20, 40, 60, 80};  ///< percent of validation accuracy
constexpr const char* kNumbers[] = {kGradientDeviation, kGradientMean, kGradientNoise};

std::string at(const std::string& metric, int mark) { return fmt::format("{} at {}", metric, mark); }

/// The distinct values in a list, in its order.
template <class Of>
std::vector<std::string> each(const std::vector<RunRecord>& runs, const Of& of) {
  std::vector<std::string> all;
  for (const RunRecord& run : runs) {
    if (std::find(all.begin(), all.end(), of(run)) == all.end()) all.push_back(of(run));
  }
  return all;
}

std::vector<std::string> tasks_of(const std::vector<RunRecord>& runs) {
  return each(runs, [](const RunRecord& run) { return run.task; });
}
std::vector<std::string> attentions_of(const std::vector<RunRecord>& runs) {
  return each(runs, [](const RunRecord& run) { return run.attention; });
}

std::vector<RunRecord> those(const std::vector<RunRecord>& runs, const std::string& task,
                             const std::string& attention) {
  std::vector<RunRecord> found;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(found),
               [&](const RunRecord& run) { return run.task == task && run.attention == attention; });
  return found;
}

/// A validation metric against the step: its mean over runs that differ only in their seed.
Curve curve_of(const std::vector<RunRecord>& runs, const std::string& metric, const std::string& label, int colour) {
  std::map<int64_t, std::pair<double, double>> sums;
  for (const RunRecord& run : runs) {
    for (const MetricsLine& line : run.curves) {
      const double* const value = find_metric(line.metrics, metric);
      if (line.split != "valid" || value == nullptr) continue;
      sums[line.step].first += *value;
      sums[line.step].second += 1;
    }
  }
  Curve curve{label, colour, false, {}};
  for (const auto& [step, sum] : sums) curve.points.emplace_back(static_cast<double>(step), sum.first / sum.second);
  return curve;
}

/// One chart for each attention, one curve for each sparsity.
ReportFigure charts(const std::vector<RunRecord>& runs, const std::string& metric, const std::string& title) {
  std::string html = "<div class=\"charts\">\n";
  for (const std::string& attention : attentions_of(runs)) {
    std::vector<Curve> curves;
    for (const std::string& task : tasks_of(runs)) {
      const std::vector<RunRecord> seeds = those(runs, task, attention);
      if (!seeds.empty()) {
        curves.push_back(
            curve_of(seeds, metric, fmt::format("{} {}", attention, task), static_cast<int>(curves.size())));
      }
    }
    html += line_chart(fmt::format("{}: {}", attention, metric), "step", curves);
  }
  return {title, html + "</div>"};
}

/// The mean over seeds, with its deviation if there are several; a dash if no run reached the mark.
std::string shown(const std::vector<RunRecord>& runs, const std::string& name) {
  std::vector<double> values;
  for (const RunRecord& run : runs) {
    if (const double* const value = find_metric(run.derived, name)) values.push_back(*value);
  }
  return mean_cell(values);
}

std::string of_paper(const PaperTable& papers, const RunRecord& run, const std::string& metric) {
  for (const PaperNumber& number : papers.numbers()) {
    if (number.task == run.task && number.attention == run.attention && number.metric == metric) {
      return fmt::format("{:.4g}", number.value);
    }
  }
  return kNoNumber;
}

ReportFigure table_14(const std::vector<RunRecord>& runs, const PaperTable& papers) {
  Table table{{"attention, share that counts", "accuracy %", "step", "deviation", "of it by features", "absolute mean",
               "paper: deviation", "paper: absolute mean"},
              {}};
  for (const std::string& task : tasks_of(runs)) {
    for (const int mark : kMarks) {
      for (const std::string& attention : attentions_of(runs)) {
        const std::vector<RunRecord> seeds = those(runs, task, attention);
        if (seeds.empty()) continue;
        const std::string deviation = at(kGradientDeviation, mark);
        const std::string mean = at(kGradientMean, mark);
        table.rows.push_back({fmt::format("{}, {}", attention, task), fmt::format("{}", mark),
                              shown(seeds, at("step", mark)), shown(seeds, deviation),
                              shown(seeds, at(kGradientNoise, mark)), shown(seeds, mean),
                              of_paper(papers, seeds.front(), deviation), of_paper(papers, seeds.front(), mean)});
      }
    }
  }
  return {"Gradients received at the classifier layer (KL Table 14)",
          "<p>At the first evaluation whose validation accuracy is at least that of the row, of the absolute values of "
          "the gradients at the hidden units of the classifier; the part of the signed gradients' deviation that "
          "random features make stands beside it. A dash: the run did not come there.</p>\n<div class=\"wide\">" +
              table.html() + "</div>"};
}

}  // namespace

Metrics crossings(const RunRecord& run) {
  Metrics found;
  for (const int mark : kMarks) {
    for (const MetricsLine& line : run.curves) {
      const double* const accuracy = find_metric(line.metrics, "accuracy");
      if (line.split != "valid" || accuracy == nullptr || 100 * *accuracy < mark) continue;
      found.emplace_back(at("step", mark), static_cast<double>(line.step));
      for (const char* name : kNumbers) {
        if (const double* const value = find_metric(line.metrics, name)) found.emplace_back(at(name, mark), *value);
      }
      break;
    }
  }
  return found;
}

std::vector<ReportFigure> figures(const std::vector<RunRecord>& runs, const PaperTable& papers) {
  return {charts(runs, "accuracy", "Learning curves by the share of positions that count (KL Fig. 6)"),
          table_14(runs, papers), charts(runs, kGradientMean, "Gradients over training: absolute mean"),
          charts(runs, kGradientNoise, "Gradients over training: deviation by random features")};
}

}  // namespace bochner::sparsity
