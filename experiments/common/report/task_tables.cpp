#include "experiments/common/report/task_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "engine/error.h"
#include "engine/io/file.h"
#include "experiments/common/report/chart.h"
#include "experiments/common/report/learning_curves.h"
#include "experiments/common/report/page.h"
#include "experiments/common/report/runs_shown.h"
#include "experiments/common/report/spread.h"
#include "experiments/common/run/run_folder.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetric = "accuracy";

/// The experiment that the file says the run belongs to; empty if it is not a record of training.
std::string trained_by(const fs::path& results) {
  constexpr int64_t kLargest = int64_t{1} << 26;
  const nlohmann::json json = nlohmann::json::parse(read_text(results, kLargest), nullptr, false);
  if (json.is_discarded())
    fail("--table: {} is damaged; remove it, or continue its run with --resume", results.string());
  if (!json.is_object() || !json.contains("metrics")) return "";
  const auto experiment = json.find("experiment");
  return experiment != json.end() && experiment->is_string() ? experiment->get<std::string>() : "";
}

/// The folders of runs, in order of their paths.
std::set<fs::path> run_folders(const std::vector<std::string>& folders) {
  std::set<fs::path> found;
  for (const std::string& folder : folders) {
    if (!fs::is_directory(folder)) fail("--table: there is no folder {}", folder);
    const auto add = [&](const fs::path& path) {
      if (holds_run(path)) found.insert(fs::canonical(path));
    };
    add(folder);
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_directory()) add(entry.path());
    }
  }
  return found;
}

/// The entries of `order` that are in `values`, in that order; then the other values.
std::vector<std::string> in_order(const std::vector<std::string>& order, const std::set<std::string>& values) {
  std::vector<std::string> result;
  for (const std::string& name : order) {
    if (values.contains(name)) result.push_back(name);
  }
  for (const std::string& name : values) {
    if (std::find(result.begin(), result.end(), name) == result.end()) result.push_back(name);
  }
  return result;
}

/// The runs of one cell, which differ only in their seed.
using Cells = std::map<std::pair<std::string, std::string>, std::vector<const RunRecord*>>;  // of (mechanism, task)

std::vector<double> percents(const std::vector<const RunRecord*>& runs) {
  std::vector<double> values;
  for (const RunRecord* run : runs) {
    if (const double* const value = find_metric(run->result.test, kMetric)) values.push_back(100 * *value);
  }
  return values;
}

std::string percent_text(double value, std::optional<double> deviation) {
  return deviation ? fmt::format("{:.2f} ± {:.2f}", value, *deviation) : fmt::format("{:.2f}", value);
}

std::string spread_text(const std::vector<double>& values) {
  if (values.empty()) return kNoNumber;
  const Spread spread = spread_of(values);
  return percent_text(spread.mean, values.size() == 1 ? std::nullopt : std::optional(spread.deviation));
}

std::string range_text(const std::set<int64_t>& values) {
  if (values.empty()) return kNoNumber;
  return values.size() == 1 ? fmt::format("{}", *values.begin())
                            : fmt::format("{} to {}", *values.begin(), *values.rbegin());
}

std::string steps_text(const std::vector<const RunRecord*>& runs) {
  if (runs.empty()) return kNoNumber;
  std::set<int64_t> steps;
  for (const RunRecord* run : runs) steps.insert(run->result.steps);
  return range_text(steps) + (runs.size() == 1 ? "" : fmt::format(" ({} seeds)", runs.size()));
}

/// The mean over tasks, which is meaningful only if each of them has a number.
std::string mean_text(const std::vector<double>& of_tasks, size_t tasks) {
  return of_tasks.size() == tasks ? fmt::format("{:.2f}", spread_of(of_tasks).mean) : kNoNumber;
}

class TableOfProtocol {
 public:
  TableOfProtocol(const Cells& cells, std::vector<std::string> tasks, std::vector<std::string> attentions,
                  const PaperTable& papers)
      : cells_(cells), tasks_(std::move(tasks)), attentions_(std::move(attentions)), papers_(papers) {}

  TaskTable made(const std::string& title, const std::string& protocol) {
    TaskTable table{title, {{""}, {}}, {{"steps"}, {}}, {}, {}};
    for (const std::string& task : tasks_) {
      table.numbers.head.insert(table.numbers.head.end(), {task + " %", "paper"});
      table.steps.head.push_back(task);
    }
    const bool averages = tasks_.size() > 1;
    if (averages) table.numbers.head.insert(table.numbers.head.end(), {"mean %", "paper"});
    for (const std::string& attention : attentions_) {
      std::vector<std::string> numbers = {attention};
      std::vector<std::string> steps = {attention};
      std::vector<double> means, papers;
      for (const std::string& task : tasks_) {
        const std::vector<const RunRecord*> runs = of(attention, task);
        const std::vector<double> values = percents(runs);
        numbers.push_back(spread_text(values));
        numbers.push_back(papers_number(protocol, task, attention));
        steps.push_back(steps_text(runs));
        if (!values.empty()) means.push_back(spread_of(values).mean);
        if (const PaperNumber* const number = papers_.find(protocol, task, attention, kMetric))
          papers.push_back(number->value);
      }
      if (averages) numbers.insert(numbers.end(), {mean_text(means, tasks_.size()), mean_text(papers, tasks_.size())});
      table.numbers.rows.push_back(numbers);
      table.steps.rows.push_back(steps);
    }
    table.steps.rows.push_back({"test examples"});
    for (const std::string& task : tasks_) table.steps.rows.back().push_back(test_examples(task));
    table.sources.assign(sources_.begin(), sources_.end());
    return table;
  }

 private:
  std::vector<const RunRecord*> of(const std::string& attention, const std::string& task) const {
    const auto found = cells_.find({attention, task});
    return found == cells_.end() ? std::vector<const RunRecord*>() : found->second;
  }
  std::string papers_number(const std::string& protocol, const std::string& task, const std::string& attention) {
    const PaperNumber* const number = papers_.find(protocol, task, attention, kMetric);
    if (number == nullptr) return kNoNumber;
    sources_.insert(fmt::format("{} (protocol {})", number->source, number->protocol));
    return percent_text(number->value, number->deviation);
  }
  std::string test_examples(const std::string& task) const {
    std::set<int64_t> counts;
    for (const std::string& attention : attentions_) {
      for (const RunRecord* run : of(attention, task)) {
        if (run->result.test_examples > 0) counts.insert(run->result.test_examples);
      }
    }
    return range_text(counts);
  }

  const Cells& cells_;
  std::vector<std::string> tasks_;
  std::vector<std::string> attentions_;
  const PaperTable& papers_;
  std::set<std::string> sources_;
};

/// The notes below the tables: where the papers' numbers come from, and what was left out.
std::vector<std::string> notes_of(const TaskTable& table) {
  std::vector<std::string> notes;
  if (!table.sources.empty()) notes.push_back(fmt::format("Paper: {}.", fmt::join(table.sources, "; ")));
  for (const std::string& remark : table.remarks) notes.push_back(fmt::format("Note: {}.", remark));
  return notes;
}

std::string left_out(const FoundRuns& found) {
  if (found.unfinished.empty()) return "";
  return fmt::format("Not finished, and left out: {}.", fmt::join(found.unfinished, ", "));
}

}  // namespace

FoundRuns runs_below(const std::vector<std::string>& folders, const std::string& experiment) {
  FoundRuns found;
  std::map<std::string, std::string> known;
  for (const fs::path& folder : run_folders(folders)) {
    if (!fs::exists(folder / kResults)) {
      found.unfinished.push_back(folder.string());
      continue;
    }
    if (trained_by(folder / kResults) != experiment) continue;
    RunRecord run = read_run(folder);
    const std::string what =
        fmt::format("{}, {} with {}, seed {}", protocol_of(run), run.task, run.attention, run.seed);
    const auto [other, is_new] = known.emplace(what, folder.string());
    if (!is_new) fail("--table: {} and {} are the same run: {}; leave one out", other->second, folder.string(), what);
    found.runs.push_back(std::move(run));
  }
  if (found.runs.empty()) {
    fail("--table: no finished run of {} in {}", experiment, fmt::format("{}", fmt::join(folders, ", ")));
  }
  return found;
}

std::vector<TaskTable> task_tables(const std::vector<RunRecord>& runs, const std::vector<std::string>& tasks,
                                   const std::vector<std::string>& attentions, const PaperTable& papers) {
  struct Group {
    Cells cells;
    std::set<std::string> tasks, attentions;
    std::string protocol;
    std::vector<std::string> remarks;  ///< each once, with its task
  };
  std::map<std::string, Group> groups;
  for (const RunRecord& run : runs) {
    Group& group = groups[protocol_of(run)];
    group.protocol = run.protocol;
    group.tasks.insert(run.task);
    group.attentions.insert(run.attention);
    group.cells[{run.attention, run.task}].push_back(&run);
    for (const std::string& remark : run.result.remarks) {
      const std::string of_task = run.task + ": " + remark;
      if (std::find(group.remarks.begin(), group.remarks.end(), of_task) == group.remarks.end())
        group.remarks.push_back(of_task);
    }
  }
  std::vector<TaskTable> tables;
  for (const auto& [title, group] : groups) {
    TableOfProtocol table(group.cells, in_order(tasks, group.tasks), in_order(attentions, group.attentions), papers);
    tables.push_back(table.made(title, group.protocol));
    tables.back().remarks = group.remarks;
  }
  return tables;
}

std::string written(const std::vector<TaskTable>& tables, const FoundRuns& found, const std::string& format) {
  std::string text;
  const std::string rest = left_out(found);
  if (format == "html") {
    for (const TaskTable& table : tables) {
      text += fmt::format("<h2>{}</h2>\n<div class=\"wide\">{}</div>\n<div class=\"wide\">{}</div>\n",
                          html_escaped(table.title), table.numbers.html(), table.steps.html());
      for (const std::string& note : notes_of(table)) text += fmt::format("<p>{}</p>\n", html_escaped(note));
    }
    text += "<h2>Curves</h2>\n<div class=\"charts\">\n" + learning_curves(found.runs) + "</div>\n";
    if (!rest.empty()) text += fmt::format("<p>{}</p>\n", html_escaped(rest));
    return html_page(found.runs.front().experiment + ": tasks and mechanisms", text);
  }
  const bool latex = format == "latex";
  const auto as_written = [&](const Table& table) { return latex ? table.latex() : table.markdown(); };
  for (const TaskTable& table : tables) {
    text += latex ? "% " + table.title + "\n" : "## " + table.title + "\n\n";
    text += as_written(table.numbers) + "\n" + as_written(table.steps) + "\n";
    for (const std::string& note : notes_of(table)) text += (latex ? "% " : "") + note + "\n\n";
  }
  return rest.empty() ? text : text + (latex ? "% " : "") + rest + "\n";
}

}  // namespace bochner
