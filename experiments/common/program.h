// The frame around every experiment's main: options, --help and friends, signals, exit codes.
//
//   int main(int argc, char** argv) {
//     return bochner::main_of<Config>({"lra", "Long Range Arena", bochner::embedded_resources()}, argc, argv, train);
//   }
//   void train(Config& config, Session& session) { ... }
//
// Exit codes: 0 done; 1 failed while running, or a bug; 2 the caller's mistake; 130 interrupted. Whatever goes wrong
// ends in one line on stderr.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/common/config.h"
#include "experiments/common/log.h"

namespace bochner {

/// What a run knows of how it was called. `options` and `fields` are those of the config object.
struct Session {
  const Experiment& experiment;
  Fields& fields;
  RunOptions& options;
  Log& log;
  std::string program;  ///< argv[0]
  std::vector<std::pair<std::string, std::string>> overrides;
};

/// main_of without its template: `body` runs with the loaded config, threads, device checked and a log.
int main_of_fields(const Experiment& experiment, Fields& fields, RunOptions& options, int argc, char** argv,
                   const std::function<void(Session&)>& body);

/// Config has a member `run` of type RunOptions and `void fields(Fields&)`.
template <class Config, class Body>
int main_of(const Experiment& experiment, int argc, char** argv, const Body& body) {
  Config config;
  Fields fields = Fields::of(config);
  return main_of_fields(experiment, fields, config.run, argc, argv, [&](Session& session) { body(config, session); });
}

}  // namespace bochner
