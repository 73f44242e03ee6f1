// The main function of every experiment: options, --help and the like, signals, exit codes, the table at the end.
//
//   int main(int argc, char** argv) {
//     return bochner::main_of<Config>({"lra", "Long Range Arena", bochner::embedded_resources()}, argc, argv, train);
//   }
//   void train(Config& config, Session& session) { train_runs(session, ...); }
//
// `--attention=A,B` calls train once for each (arguments.h), and writes the report on all runs into the folder above
// theirs. Exit codes: 0 done; 1 failed while running, a full disk, or a bug; 2 the caller's mistake; 130 interrupted;
// 75 interrupted by SIGTERM or SIGUSR1. Every failure ends in one line on stderr.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/comm/communicator.h"
#include "experiments/common/process/log.h"
#include "experiments/common/program/settings.h"
#include "experiments/common/run/results.h"

namespace bochner {

/// How a run was called. `options` and `fields` are those of the config object.
struct Session {
  const Experiment& experiment;
  Fields& fields;
  RunOptions& options;
  Log& log;
  std::string program;  ///< argv[0]
  /// The command that continues all runs of this call after an interrupt; empty if there is one run.
  std::string go_on;
  Overrides overrides;
  Assignments for_resume{};      ///< of the command line: changes that are allowed when a run is resumed
  Communicator& comm = alone();  ///< the processes that run this together
  DataLog data{};                ///< what was read for all runs of this call
  std::set<std::string> told{};  ///< warnings, each once
  /// What runs learn in place of their task. It is shown after their protocol, and papers have no numbers for it.
  std::string learns{};
  /// For a call with several tasks: only reads the data, so that missing files are reported before any training.
  bool rehearsal = false;
  /// Called when a run is finished, before its results.json and report.html are written: adds numbers to
  /// RunRecord::derived, writes files next to them, and returns what only this run's page shows. Pictures and tables
  /// that a page of several runs also shows belong in Experiment::figures.
  std::function<std::vector<ReportFigure>(RunRecord&)> after_run{};
  std::vector<RunRecord> records{};  ///< of the finished runs; train_runs adds them
};

using Body = std::function<void(Session&)>;
/// Calls a body with the fields and options of a new config, whose values are the defaults.
using Launch = std::function<void(Fields& fields, RunOptions& options, const Body& body)>;

/// main_of() without its template: `with_config` makes a new config and passes it on.
int main_of_configs(const Experiment& experiment, int argc, char** argv,
                    const std::function<void(const Launch&)>& with_config);

/// Config has a member `run` of type RunOptions and `void fields(Fields&)`.
template <class Config, class Function>
int main_of(const Experiment& experiment, int argc, char** argv, const Function& body) {
  return main_of_configs(experiment, argc, argv, [&](const Launch& launch) {
    Config config;
    Fields fields = Fields::of(config);
    launch(fields, config.run, [&](Session& session) { body(config, session); });
  });
}

/// Calls `body` and turns an exception into one line and an exit code.
int exit_code_of(Log& log, const std::function<void()>& body);

}  // namespace bochner
