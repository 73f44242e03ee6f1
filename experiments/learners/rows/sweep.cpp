#include "experiments/learners/rows/sweep.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "engine/error.h"
#include "engine/io/csv.h"
#include "engine/io/file.h"
#include "experiments/common/process/interrupt.h"
#include "experiments/common/report/chart.h"
#include "experiments/common/report/report.h"
#include "experiments/common/report/spread.h"
#include "experiments/common/report/table.h"
#include "experiments/common/run/run_folder.h"

namespace bochner::rows {
namespace {

/// One network of a sweep and its runs, one for each seed.
struct Point {
  std::string layer;
  int64_t hidden;
  int64_t features;  ///< 0 for the plain network
  std::vector<RunRecord> runs = {};

  std::string name() const {
    return features == 0 ? fmt::format("{} d{}", layer, hidden) : fmt::format("{} d{} m{}", layer, hidden, features);
  }
};

void require_once(const std::string& option, std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  const auto twice = std::adjacent_find(values.begin(), values.end());
  if (twice != values.end()) fail("--{}: {} stands twice", option, *twice);
}

std::vector<Point> points_of(const std::string& layer, const SweepConfig& sweep) {
  require_once("sweep.hidden", sweep.hidden);
  require_once("sweep.features", sweep.features);
  std::vector<Point> points;
  for (const int64_t hidden : sweep.hidden) points.push_back({"linear", hidden, 0});
  if (layer == "linear") return points;
  for (const int64_t hidden : sweep.hidden) {
    for (const int64_t features : sweep.features) points.push_back({layer, hidden, features});
  }
  return points;
}

std::vector<double> values_of(const Point& point, const std::string& metric) {
  std::vector<double> values;
  for (const RunRecord& run : point.runs) {
    if (const double* const found = find_metric(run.result.test, metric)) values.push_back(*found);
  }
  return values;
}

void write_csv(const std::filesystem::path& file, const std::vector<Point>& points) {
  CsvWriter csv(file);
  csv.write_row({"layer", "hidden", "features", "seed", "parameters", "flops", "bytes", "bytes_bundled", "valid_loss",
                 "valid_accuracy", "test_loss", "test_accuracy"});
  for (const Point& point : points) {
    for (const RunRecord& run : point.runs) {
      std::vector<std::string> row = {point.layer, fmt::format("{}", point.hidden), fmt::format("{}", point.features),
                                      fmt::format("{}", run.seed), fmt::format("{}", run.result.parameters)};
      const auto add = [&](const Metrics& metrics, const std::string& name) {
        const double* const found = find_metric(metrics, name);
        row.push_back(found == nullptr ? "" : fmt::format("{}", *found));
      };
      for (const char* name : {"flops", "bytes", "bytes-bundled"}) add(run.result.test, name);
      for (const Metrics* metrics : {&run.result.valid, &run.result.test}) {
        add(*metrics, "loss");
        add(*metrics, "accuracy");
      }
      csv.write_row(std::vector<std::string_view>(row.begin(), row.end()));
    }
  }
  csv.commit();
}

Table table_of(const std::vector<Point>& points) {
  Table table{{"network", "parameters", "test loss", "test accuracy %", "flops a row", "bytes", "bundled"}, {}};
  for (const Point& point : points) {
    const auto shown = [&](const std::string& metric, double factor) {
      std::vector<double> values = values_of(point, metric);
      for (double& value : values) value *= factor;
      return mean_cell(values);
    };
    const auto whole = [&](const std::string& metric) {
      const std::vector<double> values = values_of(point, metric);
      return values.empty() ? std::string(kNoNumber) : fmt::format("{:.0f}", values[0]);
    };
    table.rows.push_back({point.name(), fmt::format("{}", point.runs[0].result.parameters), shown("loss", 1),
                          shown("accuracy", 100), whole("flops"), whole("bytes"), whole("bytes-bundled")});
  }
  return table;
}

/// The metric against the parameters: a curve for the plain networks, and one per width for those with an SNNK layer.
std::string figure_of(const std::vector<Point>& points, const std::string& metric) {
  std::map<std::string, Curve> curves;
  for (const Point& point : points) {
    const std::string label = point.features == 0 ? point.layer : fmt::format("{} d{}", point.layer, point.hidden);
    Curve& curve = curves[label];
    curve.label = label;
    curve.dashed = point.features == 0;
    curve.points.emplace_back(static_cast<double>(point.runs[0].result.parameters),
                              spread_of(values_of(point, metric)).mean);
  }
  std::vector<Curve> drawn;
  for (auto& [label, curve] : curves) {
    curve.colour = static_cast<int>(drawn.size());
    std::sort(curve.points.begin(), curve.points.end());
    drawn.push_back(std::move(curve));
  }
  return line_chart("test " + metric, "parameters", drawn);
}

}  // namespace

void SweepConfig::fields(Fields& f) {
  f("hidden", hidden, "trains networks with each of these widths of the last hidden layer, and compares them")
      .at_least(1)
      .of_invocation();
  f("features", features, "trains SNNK layers with each of these numbers of features, and compares them")
      .at_least(1)
      .of_invocation();
}

std::filesystem::path folder_of_sweep(const Session& session) {
  const RunOptions& asked = session.options;
  const std::filesystem::path folder =
      asked.out.empty() ? folder_of_runs(session.experiment, asked) : std::filesystem::path(asked.out);
  require_no_run_itself(folder);
  if (!asked.resume && holds_runs(folder)) {
    fail("{} holds runs already; continue them with --resume, or name another folder with --out", folder.string());
  }
  return folder;
}

void run_sweep(Session& session, const std::filesystem::path& folder, ModelConfig& model, SweepConfig& sweep,
               const TrainPlan& plan, const MakeTrainable& make) {
  RunOptions& options = session.options;
  const RunOptions asked = options;
  if (sweep.hidden.empty()) sweep.hidden = {model.hidden};
  if (sweep.features.empty()) sweep.features = {model.features};
  session.go_on = fmt::format("the same command with --resume --out={}", folder.string());
  std::vector<Point> points = points_of(asked.attention, sweep);
  options.seeds = 1;
  const ModelConfig asked_model = model;
  const Overrides asked_overrides = session.overrides;
  const auto record = [&](const char* name, int64_t value, int64_t before) {
    if (value == before) return;
    std::erase_if(session.overrides, [&](const auto& one) { return one.first == name; });
    session.overrides.emplace_back(name, fmt::format("{}", value));
  };
  const auto choose = [&](const Point& point) {
    model.hidden = point.hidden;
    model.features = point.features != 0 ? point.features : asked_model.features;
    options.attention = point.layer;
    session.overrides = asked_overrides;
    record("model.hidden", model.hidden, asked_model.hidden);
    record("model.features", model.features, asked_model.features);
  };
  for (const Point& point : points) {  // a mistake in the last one is reported before the first begins
    choose(point);
    make();
  }
  std::optional<StopNote> note;  // once there is something to continue
  for (Point& point : points) {
    choose(point);
    for (int i = 0; i < asked.seeds; ++i) {
      options.seed = asked.seed + static_cast<uint64_t>(i);
      std::string name = point.name();
      std::replace(name.begin(), name.end(), ' ', '-');
      const std::filesystem::path path = folder / fmt::format("{}-seed{}", name, options.seed);
      options.resume = asked.resume && holds_run(path);
      RunRecord run = train_run(session, plan, RunFolder(path, options.resume), make);
      run.attention = point.name();
      run.overrides = asked_overrides;  // the name says the others
      point.runs.push_back(std::move(run));
      if (!note) note.emplace("interrupted; go on with: " + session.go_on);
    }
  }
  write_csv(folder / "sweep.csv", points);
  const Table table = table_of(points);
  std::vector<RunRecord> records;
  for (const Point& point : points) records.insert(records.end(), point.runs.begin(), point.runs.end());
  const std::string title = fmt::format("{}: {} over widths and features", session.experiment.name, asked.task);
  write_file_atomically(folder / kReport,
                        report_html(title, records, PaperTable::parse(session.experiment.resources.paper),
                                    {{fmt::format("Test {} against parameters", plan.best_by),
                                      "<div class=\"charts\">" + figure_of(points, plan.best_by) +
                                          "</div>\n<div class=\"wide\">" + table.html() + "</div>"}}));
  if (!session.log.shows(LogLevel::info)) return;
  fmt::print("{}{}\n", table.text(), (folder / kReport).string());
}

}  // namespace bochner::rows
