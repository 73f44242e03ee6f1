#include "experiments/common/report/learning_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "experiments/common/report/chart.h"
#include "experiments/common/report/runs_shown.h"
#include "experiments/common/run/metrics.h"

namespace bochner {
namespace {

/// A unit in which a time is a readable number.
struct TimeUnit {
  const char* name;
  double seconds;
};

TimeUnit unit_for(double longest) {
  if (longest <= 300) return {"seconds", 1};
  return longest <= 3 * 3600 ? TimeUnit{"minutes", 60} : TimeUnit{"hours", 3600};
}

/// The validation metrics, the most important first, and the training loss.
std::vector<std::string> charted(const std::vector<RunRecord>& runs) {
  std::vector<std::string> metrics;
  const auto add = [&](const std::string& name) {
    if (std::find(metrics.begin(), metrics.end(), name) == metrics.end()) metrics.push_back(name);
  };
  for (const RunRecord& run : runs) {
    for (const MetricsLine& line : run.curves) {
      if (line.split != "valid") continue;
      for (const auto& metric : line.metrics) add(metric.first);
    }
  }
  std::stable_partition(metrics.begin(), metrics.end(), is_share);
  add("loss");
  return metrics;
}

double drawn_value(const std::string& metric, double value) { return is_share(metric) ? 100 * value : value; }

/// `place` gives the x of a step of a run, or nullopt.
template <class Place>
std::vector<Curve> curves_of(const std::vector<RunRecord>& runs, const std::string& metric, const Place& place) {
  std::vector<Curve> curves;
  const std::vector<RunGroup> groups = groups_of(runs);
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string prefix = groups.size() == 1 ? "" : groups[i].name + ", ";
    for (const char* split : {"valid", "train"}) {
      for (const RunRecord* run : groups[i].runs) {
        Curve curve{prefix + split, static_cast<int>(i), split == std::string("train"), {}};
        for (const MetricsLine& line : run->curves) {
          const double* const value = find_metric(line.metrics, metric);
          if (line.split != split || value == nullptr) continue;
          if (const std::optional<double> x = place(*run, line.step))
            curve.points.emplace_back(*x, drawn_value(metric, *value));
        }
        if (!curve.points.empty()) curves.push_back(std::move(curve));
      }
    }
  }
  return curves;
}

/// A point for each run: `cost` gives its x, or 0 if it was not measured.
template <class Cost>
std::vector<Curve> points_of(const std::vector<RunRecord>& runs, const std::string& metric, const Cost& cost) {
  std::vector<Curve> curves;
  const std::vector<RunGroup> groups = groups_of(runs);
  if (groups.size() < 2) return {};
  for (size_t i = 0; i < groups.size(); ++i) {
    Curve curve{groups[i].name, static_cast<int>(i), false, {}, false};
    for (const RunRecord* run : groups[i].runs) {
      const double* const value = find_metric(run->result.test, metric);
      if (value != nullptr && cost(*run) > 0) curve.points.emplace_back(cost(*run), drawn_value(metric, *value));
    }
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  }
  return curves;
}

std::string chart(const std::string& metric, const char* against, const std::string& x_label,
                  const std::vector<Curve>& curves) {
  return curves.empty() ? "" : line_chart(fmt::format("{} against {}", shown_name(metric), against), x_label, curves);
}

}  // namespace

TrainingTimes::TrainingTimes(const RunRecord& run) {
  for (const MetricsLine& line : run.curves) {
    if (const double* const seconds = find_metric(line.metrics, "seconds")) times_.emplace_back(line.step, *seconds);
  }
}

std::optional<double> TrainingTimes::at(int64_t step) const {
  const auto next = std::lower_bound(times_.begin(), times_.end(), step,
                                     [](const auto& time, int64_t of) { return time.first < of; });
  if (next == times_.end()) return std::nullopt;
  const auto [before_step, before] = next == times_.begin() ? std::pair<int64_t, double>{0, 0} : *std::prev(next);
  const int64_t between = next->first - before_step;
  if (between <= 0) return next->second;
  return before + (next->second - before) * static_cast<double>(step - before_step) / static_cast<double>(between);
}

std::string learning_curves(const std::vector<RunRecord>& runs) {
  const auto by_step = [](const RunRecord&, int64_t step) { return std::optional(static_cast<double>(step)); };
  double longest = 0;
  for (const RunRecord& run : runs) longest = std::max(longest, run.result.train_seconds);
  const TimeUnit unit = unit_for(longest);
  std::map<const RunRecord*, TrainingTimes> times;
  for (const RunRecord& run : runs) times.emplace(&run, run);
  const auto by_time = [&](const RunRecord& run, int64_t step) {
    std::optional<double> seconds = times.at(&run).at(step);
    if (seconds) *seconds /= unit.seconds;
    return seconds;
  };
  const std::vector<std::string> metrics = charted(runs);
  std::string html;
  for (const std::string& metric : metrics) {
    html += chart(metric, "steps", "step", curves_of(runs, metric, by_step));
    if (metric != metrics.front() && metric != "loss") continue;
    html += chart(metric, "time", fmt::format("{} of training, without evaluation", unit.name),
                  curves_of(runs, metric, by_time));
  }
  const std::vector<std::string> tested = tested_metrics(runs);
  if (!tested.empty()) {
    const std::string& metric = tested.front();  // the most important one
    constexpr double kMebibyte = 1 << 20;
    const auto memory = [](const RunRecord& run) {
      return static_cast<double>(run.result.peak_memory_bytes) / kMebibyte;
    };
    const auto speed = [](const RunRecord& run) { return run.result.samples_per_second(); };
    html += chart("test " + metric, "memory", "MiB at the peak of the run", points_of(runs, metric, memory));
    html += chart("test " + metric, "speed", "examples a second in training", points_of(runs, metric, speed));
  }
  return html;
}

}  // namespace bochner
