#include "experiments/common/report/runs_shown.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace bochner {
namespace {

constexpr size_t kMostInTitle = 4;

template <class Member>
bool differs(const std::vector<RunRecord>& runs, Member member) {
  return std::any_of(runs.begin(), runs.end(),
                     [&](const RunRecord& run) { return run.*member != runs.front().*member; });
}

/// What distinguishes the run from the others, apart from its seed.
std::string name_of_group(const RunRecord& run, const std::vector<RunRecord>& all) {
  std::string name = run.attention;
  if (differs(all, &RunRecord::task)) name = name.empty() ? run.task : run.task + ", " + name;
  if (differs(all, &RunRecord::protocol)) name += ", " + run.protocol;
  for (const auto& setting : run.overrides) {
    const auto is_without = [&](const RunRecord& other) {
      return other.attention == run.attention && other.task == run.task && other.protocol == run.protocol &&
             std::find(other.overrides.begin(), other.overrides.end(), setting) == other.overrides.end();
    };
    if (std::any_of(all.begin(), all.end(), is_without))
      name += fmt::format(", {} = {}", setting.first, setting.second);
  }
  return name.empty() ? run.task : name;
}

}  // namespace

std::vector<double> RunGroup::tested(const std::string& metric) const {
  std::vector<double> values;
  for (const RunRecord* run : runs) {
    if (const double* const value = find_metric(run->result.test, metric)) values.push_back(*value);
  }
  return values;
}

std::vector<RunGroup> groups_of(const std::vector<RunRecord>& runs) {
  std::vector<RunGroup> groups;
  for (const RunRecord& run : runs) {
    const std::string name = name_of_group(run, runs);
    auto found = std::find_if(groups.begin(), groups.end(), [&](const RunGroup& group) { return group.name == name; });
    if (found == groups.end()) found = groups.insert(groups.end(), RunGroup{name, {}});
    found->runs.push_back(&run);
  }
  return groups;
}

std::string name_of_run(const RunRecord& run, const std::vector<RunRecord>& all) {
  const std::string name = name_of_group(run, all);
  return differs(all, &RunRecord::seed) ? fmt::format("{}, seed {}", name, run.seed) : name;
}

std::string protocol_of(const RunRecord& run) {
  std::string text = run.protocol;
  const char* link = " with ";
  for (const auto& [name, value] : run.overrides) {
    text += fmt::format("{}{} = {}", link, name, value);
    link = ", ";
  }
  return text;
}

std::string title_of(const std::vector<RunRecord>& runs) {
  const auto named = [&](const std::string RunRecord::*member, const char* many) {
    std::vector<std::string> names;
    for (const RunRecord& run : runs) {
      if (std::find(names.begin(), names.end(), run.*member) == names.end()) names.push_back(run.*member);
    }
    return names.size() > kMostInTitle ? fmt::format("{} {}", names.size(), many)
                                       : fmt::format("{}", fmt::join(names, ", "));
  };
  const std::string attentions = named(&RunRecord::attention, "mechanisms");
  return fmt::format("{}: {}{}", runs.front().experiment, named(&RunRecord::task, "tasks"),
                     attentions.empty() ? "" : " with " + attentions);
}

std::vector<std::string> tested_metrics(const std::vector<RunRecord>& runs) {
  std::vector<std::string> metrics;
  for (const RunRecord& run : runs) {
    for (const auto& [name, value] : run.result.test) {
      if (std::find(metrics.begin(), metrics.end(), name) == metrics.end()) metrics.push_back(name);
    }
  }
  std::stable_partition(metrics.begin(), metrics.end(), is_share);
  return metrics;
}

std::vector<Baseline> baselines_of(const std::vector<RunRecord>& runs) {
  struct Group {
    std::string name;
    std::vector<std::pair<std::string, std::vector<double>>> values;  ///< for each metric
  };
  std::vector<Group> groups;
  const auto at = [](auto& list, const std::string& name, auto member) -> auto& {
    auto found = std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.*member == name; });
    if (found == list.end()) found = list.insert(list.end(), {name, {}});
    return *found;
  };
  const bool tasks = !runs.empty() && differs(runs, &RunRecord::task);
  for (const RunRecord& run : runs) {
    for (const Baseline& baseline : run.result.baselines) {
      Group& group = at(groups, tasks ? run.task + ", " + baseline.name : baseline.name, &Group::name);
      for (const auto& [metric, value] : baseline.test) {
        at(group.values, metric, &std::pair<std::string, std::vector<double>>::first).second.push_back(value);
      }
    }
  }
  std::vector<Baseline> all;
  for (const Group& group : groups) {
    Baseline& mean = all.emplace_back(Baseline{group.name, {}});
    for (const auto& [metric, values] : group.values) mean.test.emplace_back(metric, spread_of(values).mean);
  }
  return all;
}

std::string test_name_of(const std::vector<RunRecord>& runs) {
  const auto name = [&](const RunRecord& run) { return run.result.test_name(); };
  const bool alike = std::all_of(runs.begin(), runs.end(), [&](const auto& run) { return name(run) == name(runs[0]); });
  return alike && !runs.empty() ? name(runs[0]) : "test";
}

std::vector<std::string> remarks_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> all;
  for (const RunRecord& run : runs) {
    for (const std::string& remark : run.result.remarks) {
      if (std::find(all.begin(), all.end(), remark) == all.end()) all.push_back(remark);
    }
  }
  return all;
}

std::string shown_name(const std::string& metric) { return is_share(metric) ? metric + " %" : metric; }

std::string shown(const std::string& metric, double value) {
  return is_share(metric) ? fmt::format("{:.2f}", 100 * value) : fmt::format("{:.4g}", value);
}

std::string shown(const std::string& metric, const Spread& spread) {
  if (!is_share(metric) && spread.deviation == 0) return shown(metric, spread.mean);  // a count, such as of bytes
  return is_share(metric) ? fmt::format("{:.2f} ± {:.2f}", 100 * spread.mean, 100 * spread.deviation)
                          : fmt::format("{:.4g} ± {:.2g}", spread.mean, spread.deviation);
}

}  // namespace bochner
