#include "experiments/common/report/headline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "experiments/common/report/runs_shown.h"
#include "experiments/common/run/metrics.h"

namespace bochner {
namespace {

constexpr size_t kMostNamed = 6;

/// One mechanism's results on the metric that the sentence is about.
struct Standing {
  std::string name;
  size_t runs = 0;
  Spread spread;
};

std::string number(const std::string& metric, double value) {
  return is_share(metric) ? fmt::format("{:.1f} %", 100 * value) : fmt::format("{:.4g}", value);
}

std::string number(const std::string& metric, const Standing& standing) {
  if (standing.runs == 1) return number(metric, standing.spread.mean);
  if (!is_share(metric)) return fmt::format("{:.4g} ± {:.2g}", standing.spread.mean, standing.spread.deviation);
  return fmt::format("{:.1f} ± {:.1f} %", 100 * standing.spread.mean, 100 * standing.spread.deviation);
}

std::string in_words(const std::vector<std::string>& names) {
  if (names.size() > kMostNamed) return fmt::format("{} others", names.size());
  if (names.size() == 1) return names[0];
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

/// The best result without learning, or null.
const Baseline* best_guess(const std::vector<Baseline>& guesses, const std::string& metric) {
  const Baseline* best = nullptr;
  for (const Baseline& guess : guesses) {
    const double* const value = find_metric(guess.test, metric);
    if (value == nullptr) continue;
    const double sign = higher_is_better(metric) ? 1 : -1;
    if (best == nullptr || sign * *value > sign * *find_metric(best->test, metric)) best = &guess;
  }
  return best;
}

/// Says which mechanisms are level with the best; they are sorted, best first.
std::string order_of(const std::vector<Standing>& standings) {
  const Standing& best = standings.front();
  if (std::any_of(standings.begin(), standings.end(), [](const Standing& s) { return s.runs < 2; })) {
    return " With a single seed of a mechanism, the order may be luck: --seeds=3 shows by how much results vary.";
  }
  if (std::any_of(standings.begin(), standings.end(), [](const Standing& s) { return std::isnan(s.spread.mean); })) {
    return " Not all results are numbers, so there is no order.";
  }
  std::vector<std::string> level;
  std::vector<std::string> behind;
  for (size_t i = 1; i < standings.size(); ++i) {
    const double deviation = std::max(best.spread.deviation, standings[i].spread.deviation);
    const double apart = std::abs(best.spread.mean - standings[i].spread.mean);
    const bool is_level = apart == 0 || apart < deviation;
    (is_level ? level : behind).push_back(standings[i].name);
  }
  if (behind.empty()) {
    level.insert(level.begin(), best.name);
    return fmt::format(" {} are level: they differ by less than one deviation.", in_words(level));
  }
  if (level.empty()) return fmt::format(" {} is ahead of {} by at least one deviation.", best.name, in_words(behind));
  return fmt::format(" {} is ahead of {} by at least one deviation; {} {} level with it.", best.name, in_words(behind),
                     in_words(level), level.size() == 1 ? "is" : "are");
}

Headline headline_of(const std::vector<RunRecord>& runs, const std::string& metric) {
  std::vector<Standing> standings;
  size_t fewest = SIZE_MAX;
  size_t most = 0;
  for (const RunGroup& group : groups_of(runs)) {
    const std::vector<double> values = group.tested(metric);
    if (values.empty()) continue;
    standings.push_back({group.name, values.size(), spread_of(values)});
    fewest = std::min(fewest, values.size());
    most = std::max(most, values.size());
  }
  const double sign = higher_is_better(metric) ? 1 : -1;
  const auto rank = [&](const Standing& one) {
    return std::isnan(one.spread.mean) ? -INFINITY : sign * one.spread.mean;
  };
  std::stable_sort(standings.begin(), standings.end(),
                   [&](const Standing& a, const Standing& b) { return rank(a) > rank(b); });
  std::vector<std::string> results;
  for (const Standing& standing : standings) {
    if (results.size() == kMostNamed) break;
    results.push_back(fmt::format("{} {}", standing.name, number(metric, standing)));
  }
  Headline headline{fmt::format("{}", fmt::join(results, ", ")), ""};
  if (standings.size() > kMostNamed) {
    headline.result += fmt::format(" and {} more, the last {} {}", standings.size() - kMostNamed, standings.back().name,
                                   number(metric, standings.back()));
  }
  const std::vector<Baseline> guesses = baselines_of(runs);
  const Baseline* const guess = best_guess(guesses, metric);
  if (guess != nullptr) {
    headline.result +=
        fmt::format("; {} without learning ({})", number(metric, *find_metric(guess->test, metric)), guess->name);
  }
  const auto [first, last] = std::minmax_element(
      runs.begin(), runs.end(), [](const RunRecord& a, const RunRecord& b) { return a.result.steps < b.result.steps; });
  const std::string steps = first->result.steps == last->result.steps
                                ? fmt::format("{}", last->result.steps)
                                : fmt::format("{} to {}", first->result.steps, last->result.steps);
  const std::string seeds = most == 1        ? "one seed"
                            : fewest == most ? fmt::format("mean ± deviation of {} seeds", most)
                                             : fmt::format("mean ± deviation of {} to {} seeds", fewest, most);
  std::string set = test_name_of(runs);
  set.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(set.front())));
  headline.meaning = fmt::format("{} {} on {} after {} steps, {}.", set, metric, runs.front().task, steps,
                                 most == 1 && standings.size() > 1 ? seeds + " each" : seeds);
  if (standings.size() > 1) headline.meaning += order_of(standings);
  for (const std::string& remark : remarks_of(runs)) headline.meaning += fmt::format(" Note: {}.", remark);
  if (guess != nullptr && !(sign * standings.front().spread.mean > sign * *find_metric(guess->test, metric))) {
    headline.meaning += " Nothing here is better than what needs no learning.";
  }
  return headline;
}

}  // namespace

std::vector<Headline> headlines(const std::vector<RunRecord>& runs) {
  std::vector<std::vector<RunRecord>> tasks;
  for (const RunRecord& run : runs) {
    const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const auto& t) { return t[0].task == run.task; });
    if (found == tasks.end()) {
      tasks.push_back({run});
    } else {
      found->push_back(run);
    }
  }
  std::vector<Headline> all;
  for (const std::vector<RunRecord>& task : tasks) {
    const std::vector<std::string> metrics = tested_metrics(task);
    if (!metrics.empty()) all.push_back(headline_of(task, metrics.front()));
  }
  return all;
}

}  // namespace bochner
