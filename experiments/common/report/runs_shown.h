// How the runs in one report are named and grouped and how their numbers are written: common to its sentences, tables
// and curves.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/report/spread.h"
#include "experiments/common/run/results.h"

namespace bochner {

/// Runs of one task, mechanism and protocol, which differ only in their seeds.
struct RunGroup {
  std::string name;  ///< says what differs between the groups
  std::vector<const RunRecord*> runs;

  /// The values of a test metric, for the runs that have it.
  std::vector<double> tested(const std::string& metric) const;
};
/// In the order of each group's first run. They point into `runs`.
std::vector<RunGroup> groups_of(const std::vector<RunRecord>& runs);

/// The name that distinguishes a run from the others.
std::string name_of_run(const RunRecord& run, const std::vector<RunRecord>& all);

/// `sky with steps = 500, batch = 8`: a protocol and the settings that differ from it.
std::string protocol_of(const RunRecord& run);

/// `lra: listops with performer, softmax`: the title of a report on these runs, of which there is at least one.
std::string title_of(const std::vector<RunRecord>& runs);

/// The test metrics, accuracies first.
std::vector<std::string> tested_metrics(const std::vector<RunRecord>& runs);

/// The results without learning, by name: means over the runs, whose data may depend on their seeds.
std::vector<Baseline> baselines_of(const std::vector<RunRecord>& runs);

/// `test`, or the name of the set that all runs were measured on instead.
std::string test_name_of(const std::vector<RunRecord>& runs);

/// The remarks that must accompany the numbers of the runs, each once.
std::vector<std::string> remarks_of(const std::vector<RunRecord>& runs);

/// `accuracy %`
std::string shown_name(const std::string& metric);
std::string shown(const std::string& metric, double value);
std::string shown(const std::string& metric, const Spread& spread);

}  // namespace bochner
