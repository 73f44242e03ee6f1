// How the runs of one report are named, grouped and written in numbers: what its sentences, tables and curves share.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/report/spread.h"
#include "experiments/common/run/results.h"

namespace bochner {

/// Runs of one task, mechanism and protocol: they differ in their seed.
struct RunGroup {
  std::string name;  ///< of what differs between the groups
  std::vector<const RunRecord*> runs;

  /// The values of a test metric, for the runs that have it.
  std::vector<double> tested(const std::string& metric) const;
};
/// In the order in which each has its first run. They point into `runs`.
std::vector<RunGroup> groups_of(const std::vector<RunRecord>& runs);

/// The name that distinguishes a run from the others.
std::string name_of_run(const RunRecord& run, const std::vector<RunRecord>& all);

/// `sky with steps = 500, batch = 8`: a protocol and what differs from it.
std::string protocol_of(const RunRecord& run);

/// `lra: listops with performer, softmax`: what a report of these runs is called. There is at least one.
std::string title_of(const std::vector<RunRecord>& runs);

/// The metrics of the test, accuracies first.
std::vector<std::string> tested_metrics(const std::vector<RunRecord>& runs);

/// What is reached without learning, by name: its mean over the runs, whose data may depend on their seeds.
std::vector<Baseline> baselines_of(const std::vector<RunRecord>& runs);

/// `test`, or what the set is called that all of them measured in its place.
std::string test_name_of(const std::vector<RunRecord>& runs);

/// What is to stand beside the numbers of any of the runs, each remark once.
std::vector<std::string> remarks_of(const std::vector<RunRecord>& runs);

/// `accuracy %`
std::string shown_name(const std::string& metric);
std::string shown(const std::string& metric, double value);
std::string shown(const std::string& metric, const Spread& spread);

}  // namespace bochner
