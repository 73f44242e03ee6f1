#include "experiments/common/program/figures.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/io/file.h"
#include "engine/io/json_file.h"
#include "experiments/common/process/build_info.h"
#include "experiments/common/program/run.h"
#include "experiments/common/report/report.h"
#include "experiments/common/run/results.h"
#include "experiments/common/run/run_folder.h"

namespace bochner {
namespace {

/// The papers' numbers for a task.
Table papers_table(const PaperTable& papers, const std::string& task) {
  Table table{{"", "of", "value", "protocol", "source"}, {}};
  for (const PaperNumber& number : papers.numbers()) {
    if (number.task != task) continue;
    table.rows.push_back({number.metric, number.attention, value_text(number), number.protocol, number.source});
  }
  return table;
}

}  // namespace

std::string machine_load() {
  std::array<double, 3> load{};
  const unsigned processors = std::thread::hardware_concurrency();
  if (getloadavg(load.data(), 3) != 3) return fmt::format("unknown on {} processors", processors);
  return fmt::format("{:.1f}, {:.1f}, {:.1f} on {} processors", load[0], load[1], load[2], processors);
}

void require_measurement(const Experiment& experiment, const Fields& fields, const RunOptions& options) {
  RunOptions untouched;
  const Fields defaults = Fields::of(untouched);
  for (const std::string& name : options_of_training()) {
    if (fields.find(name)->text() == defaults.find(name)->text()) continue;
    fail("--{}: {} trains nothing; measure again, with another --seed or --out", name, experiment.name);
  }
  if (!options.out.empty() && std::filesystem::exists(options.out) && !std::filesystem::is_directory(options.out)) {
    fail("--out={}: that is a file; name a folder, for results.json and report.html", options.out);
  }
  if (!options.out.empty() && holds_run(options.out)) {  // report this before the measurement, not after it
    fail("{} holds a run already; name another folder with --out", options.out);
  }
  require_writable(options.out.empty() ? folder_of_runs(experiment, options) : std::filesystem::path(options.out),
                   "out");
}

void write_figures(const Session& session, std::vector<Figure> figures, const std::vector<NamedTable>& tables) {
  const RunOptions& options = session.options;
  const bool prints = session.log.shows(LogLevel::info);
  RunFolder folder(
      options.out.empty() ? folder_of_runs(session.experiment, options) : std::filesystem::path(options.out), false);
  folder.keep();
  if (!folder.warning().empty()) session.log.warning("{}", folder.warning());
  const BuildInfo build = build_info();
  nlohmann::ordered_json results = {{"schema", kResultsSchema},
                                    {"date", utc_now()},
                                    {"host", host_name()},
                                    {"experiment", session.experiment.name},
                                    {"task", options.task},
                                    {"protocol", options.preset.empty() ? "custom" : options.preset},
                                    {"settings", nlohmann::ordered_json::parse(session.fields.json())},
                                    {"seed", options.seed},
                                    {"device", options.device},
                                    {"git", build.commit},
                                    {"build", {{"compiler", build.compiler}, {"blas", build.blas}}},
                                    {"figures", nlohmann::ordered_json::array()}};
  std::vector<ReportFigure> pictures;
  for (Figure& figure : figures) {
    nlohmann::ordered_json curves = nlohmann::ordered_json::array();
    int colour = 0;
    for (Curve& curve : figure.curves) {
      curve.colour = colour++;
      curves.push_back({{"label", curve.label}, {"points", curve.points}});
    }
    results["figures"].push_back({{"title", figure.title},
                                  {"x", figure.x_label},
                                  {"y", figure.y_label},
                                  {"note", figure.note},
                                  {"curves", curves}});
    pictures.push_back({figure.title, "<p>" + html_escaped(figure.note) + "</p>\n<div class=\"charts\">" +
                                          line_chart(figure.y_label, figure.x_label, figure.curves) + "</div>"});
  }
  std::vector<NamedTable> all = tables;
  Table papers = papers_table(PaperTable::parse(session.experiment.resources.paper), options.task);
  if (!papers.rows.empty()) all.push_back({"What the papers print for this task", std::move(papers)});
  results["tables"] = nlohmann::ordered_json::array();
  for (const auto& [title, table] : all) {
    results["tables"].push_back({{"title", title}, {"head", table.head}, {"rows", table.rows}});
    pictures.push_back({title, "<div class=\"wide\">" + table.html() + "</div>"});
    if (prints) fmt::print("{}\n{}\n", title, table.text());
  }
  const std::string config = config_ini(session.experiment, session.fields);
  pictures.push_back({"Settings", "<pre>" + html_escaped(config) + "</pre>"});
  write_file_atomically(folder / kResults, json_text(results, 1) + "\n");
  const std::string title = fmt::format("{}: {}", session.experiment.name, options.task);
  write_file_atomically(folder / kReport, report_html(title, {}, {}, pictures));
  write_file_atomically(folder / kConfig, config);
  if (prints) fmt::print("{}\n", (folder / kReport).string());
}

}  // namespace bochner
