#include "experiments/common/report/results_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "experiments/common/process/progress.h"
#include "experiments/common/report/headline.h"
#include "experiments/common/report/runs_shown.h"

namespace bochner {
namespace {

std::string bytes_text(int64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  if (bytes < 1 << 20) return fmt::format("{:.1f} KiB", 1024 * mebibytes);
  return mebibytes < 1024 ? fmt::format("{:.1f} MiB", mebibytes) : fmt::format("{:.2f} GiB", mebibytes / 1024);
}

/// A number in RunRecord::derived, whose name states its unit; large ones are not written as powers of ten.
std::string measured_text(const std::string& name, const Spread& spread) {
  if (name.ends_with("bytes")) return bytes_text(static_cast<int64_t>(spread.mean));
  if (std::abs(spread.mean) < 1000 || std::abs(spread.mean) > 1e12) return shown(name, spread);
  const std::string mean = fmt::format("{:.0f}", spread.mean);
  return spread.deviation > 0 ? fmt::format("{} ± {:.0f}", mean, spread.deviation) : mean;
}

std::string cell(const Metrics& values, const std::string& metric) {
  const double* const value = find_metric(values, metric);
  return value == nullptr ? kNoNumber : shown(metric, *value);
}

std::string mean_cell(const RunGroup& group, const std::string& metric) {
  const std::vector<double> values = group.tested(metric);
  return values.empty() ? kNoNumber : shown(metric, spread_of(values));
}

/// Whether, in any of the runs, the last step has another result than the best step by validation.
bool last_differs(const std::vector<RunRecord>& runs, const std::string& metric) {
  return std::any_of(runs.begin(), runs.end(), [&](const RunRecord& run) {
    return !run.result.test_last.empty() && cell(run.result.test, metric) != cell(run.result.test_last, metric);
  });
}

/// A column of a results table: gives its cell for a run, for a mean over seeds and for a baseline.
struct Column {
  std::string head;
  std::function<std::string(const RunRecord&)> of_run;
  std::function<std::string(const RunGroup&)> of_mean = [](const RunGroup&) { return std::string(); };
  std::function<std::string(const Baseline&)> of_baseline = [](const Baseline&) { return std::string(); };
};

Column tested_column(const std::string& metric, const std::string& head) {
  return {head, [metric](const RunRecord& run) { return cell(run.result.test, metric); },
          [metric](const RunGroup& group) { return mean_cell(group, metric); },
          [metric](const Baseline& baseline) { return cell(baseline.test, metric); }};
}

std::vector<Column> cost_columns() {
  return {{"steps", [](const RunRecord& run) { return fmt::format("{}", run.result.steps); }},
          {"steps/s", [](const RunRecord& run) { return fmt::format("{:.3g}", run.result.steps_per_second()); }},
          {"training", [](const RunRecord& run) { return clock_text(run.result.train_seconds); }},
          {"memory", [](const RunRecord& run) { return bytes_text(run.result.peak_memory_bytes); }}};
}

/// A row for each run, and one for the mean of several seeds.
Table table_of(const std::vector<RunRecord>& runs, const std::vector<Column>& columns, bool with_means) {
  Table table{{""}, {}};
  for (const Column& column : columns) table.head.push_back(column.head);
  const auto add = [&](const std::string& name, const auto& of) {
    std::vector<std::string> row = {name};
    for (const Column& column : columns) row.push_back(of(column));
    table.rows.push_back(std::move(row));
  };
  for (const RunGroup& group : groups_of(runs)) {
    for (const RunRecord* run : group.runs) {
      add(name_of_run(*run, runs), [&](const Column& column) { return column.of_run(*run); });
    }
    if (!with_means || group.runs.size() < 2) continue;
    add(fmt::format("{}, mean of {}", group.name, group.runs.size()),
        [&](const Column& column) { return column.of_mean(group); });
  }
  return table;
}

void add_baselines(Table& table, const std::vector<RunRecord>& runs, const std::vector<Column>& columns) {
  for (const Baseline& baseline : baselines_of(runs)) {
    std::vector<std::string> row = {baseline.name};
    for (const Column& column : columns) row.push_back(column.of_baseline(baseline));
    table.rows.push_back(std::move(row));
  }
}

/// What a paper reports for these runs: once for all seeds, next to their mean.
Column paper_column(const char* head, const PaperTable& papers, const std::vector<RunRecord>& runs,
                    const std::function<std::string(const PaperNumber&)>& text) {
  const auto cell = [&papers, text](const RunRecord& run) {
    const PaperNumber* const number = papers.find(run.protocol, run.task, run.attention);
    return number == nullptr ? kNoNumber : text(*number);
  };
  std::set<const RunRecord*> alone;
  for (const RunGroup& group : groups_of(runs)) {
    if (group.runs.size() == 1) alone.insert(group.runs.front());
  }
  return {head, [cell, alone](const RunRecord& run) { return alone.contains(&run) ? cell(run) : std::string(); },
          [cell](const RunGroup& group) { return cell(*group.runs.front()); }};
}

}  // namespace

Table results_table(const std::vector<RunRecord>& runs, const PaperTable& papers) {
  std::vector<Column> columns;
  const auto paper = [&](const RunRecord& run) {
    return papers.find(run.protocol, run.task, run.attention) != nullptr;
  };
  const std::vector<std::string> metrics = tested_metrics(runs);
  for (const std::string& metric : metrics) {
    columns.push_back(tested_column(metric, test_name_of(runs) + " " + shown_name(metric)));
    if (last_differs(runs, metric)) {
      columns.push_back({"last step", [metric](const RunRecord& run) { return cell(run.result.test_last, metric); }});
    }
    if (metric != metrics.front() || std::none_of(runs.begin(), runs.end(), paper)) continue;
    columns.push_back(paper_column("paper", papers, runs, value_text));
    columns.push_back(paper_column("source", papers, runs, [](const PaperNumber& number) { return number.source; }));
  }
  Table table = table_of(runs, columns, true);
  add_baselines(table, runs, columns);
  return table;
}

Table costs_table(const std::vector<RunRecord>& runs) {
  std::vector<Column> columns = cost_columns();
  columns.insert(columns.begin() + 1,
                 {{"best step", [](const RunRecord& run) { return fmt::format("{}", run.result.best_step); }},
                  {"parameters", [](const RunRecord& run) { return fmt::format("{}", run.result.parameters); }}});
  columns.push_back(
      {"samples/s", [](const RunRecord& run) { return fmt::format("{:.4g}", run.result.samples_per_second()); }});
  return table_of(runs, columns, false);
}

Table reported_table(const std::vector<RunRecord>& runs, const PaperTable& papers) {
  std::set<std::string> tasks;
  for (const RunRecord& run : runs) tasks.insert(run.task);
  Table table{{"attention", "task", "metric", "value", "protocol", "source"}, {}};
  for (const PaperNumber& number : papers.numbers()) {
    if (!tasks.contains(number.task)) continue;
    table.rows.push_back(
        {number.attention, number.task, number.metric, value_text(number), number.protocol, number.source});
  }
  for (const char* name : {"task", "metric", "protocol"}) {
    const auto column = std::find(table.head.begin(), table.head.end(), name) - table.head.begin();
    const auto at = static_cast<size_t>(column);
    const auto same = [&](const auto& row) { return row[at] == table.rows.front()[at]; };
    if (!std::all_of(table.rows.begin(), table.rows.end(), same)) continue;
    table.head.erase(table.head.begin() + column);
    for (auto& row : table.rows) row.erase(row.begin() + column);
  }
  return table;
}

Table derived_table(const std::vector<RunRecord>& runs) {
  const std::vector<RunGroup> groups = groups_of(runs);
  std::vector<std::string> names;
  for (const RunRecord& run : runs) {
    for (const auto& [name, value] : run.derived) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  Table table{{"also measured"}, {}};
  for (const RunGroup& group : groups) table.head.push_back(groups.size() == 1 ? "value" : group.name);
  for (const std::string& name : names) {
    std::vector<std::string> row = {name};
    for (const RunGroup& group : groups) {
      std::vector<double> values;
      for (const RunRecord* run : group.runs) {
        if (const double* const value = find_metric(run->derived, name)) values.push_back(*value);
      }
      row.push_back(values.empty() ? kNoNumber : measured_text(name, spread_of(values)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string results_text(const std::vector<RunRecord>& runs) {
  std::vector<Column> columns;
  for (const std::string& metric : tested_metrics(runs)) columns.push_back(tested_column(metric, shown_name(metric)));
  const std::vector<Column> metrics = columns;
  for (Column& column : cost_columns()) columns.push_back(std::move(column));
  Table table = table_of(runs, columns, true);
  table.head.front() = test_name_of(runs);
  std::string text = table.text() + "\n";
  Table guesses{{"without learning"}, {}};
  for (const Column& column : metrics) guesses.head.push_back(column.head);
  add_baselines(guesses, runs, metrics);
  if (!guesses.rows.empty()) text += guesses.text() + "\n";
  if (const Table derived = derived_table(runs); !derived.rows.empty()) text += derived.text() + "\n";
  for (const auto& [result, meaning] : headlines(runs)) text += fmt::format("{}\n{}\n\n", result, meaning);
  return text;
}

}  // namespace bochner
