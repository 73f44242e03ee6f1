// Loads a config from its five sources, of which later ones win:
//   1. defaults in the struct   2. --preset   3. --config FILE (with --resume: what the run folder holds)
//   4. environment: BOCHNER_MODEL_LAYERS for model.layers   5. command line: --model.layers=2
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "experiments/common/config/command_line.h"
#include "experiments/common/config/experiment.h"
#include "experiments/common/config/fields.h"
#include "experiments/common/config/options.h"

namespace bochner {

using Environment = std::map<std::string, std::string>;
/// The variables of this process whose names begin with BOCHNER_.
Environment bochner_environment();

/// What load_config() found besides the values.
struct ConfigReport {
  /// Settings that differ from those of the preset or, without one, from the defaults, as (name, value). A result
  /// belongs to the protocol only if this is empty.
  Overrides overrides;
  /// Unknown environment variables and the like.
  std::vector<std::string> warnings;
  /// Options of the command line that change nothing in this run, but may affect another run of the same command.
  Refusals without_effect;
  /// --steps, --seconds and --shards of the command line, which may change a run that is resumed.
  Assignments for_resume;
};

/// Fills `fields`, which include those of `options`. An Error names the source (file and line, variable, or option),
/// the mistake and, for an unknown name, the nearest valid one. With several processes, all must call it, and the first
/// one reads what the folder of a run holds.
ConfigReport load_config(const Experiment& experiment, Fields& fields, const RunOptions& options,
                         std::span<const std::string> arguments, const Environment& environment,
                         Communicator& comm = alone());

/// The complete INI file of a run: `experiment = NAME` and all fields, except those of one invocation.
std::string config_ini(const Experiment& experiment, const Fields& fields, bool begun = true);

/// Refuses to continue a run with other settings: an Error names each setting that differs from `stored` (the text of a
/// config.ini) and on which results depend. Settings in `allowed` may give more steps or seconds, and shards to a run
/// that did not divide its batches; returns the names of these.
std::vector<std::string> require_same_config(const Fields& fields, const std::string& stored, const std::string& file,
                                             const Assignments& allowed = {});

/// Refuses to answer for a run with another model: an Error names each setting of the task, the attention and the model
/// that differs from `stored`, and the option that names the run. Returns warnings: other settings that differ and may
/// decide what is asked, such as the seed of a split. With `trains`, the settings of training count, too.
std::vector<std::string> require_same_model(const Fields& fields, const std::string& stored, const std::string& file,
                                            const std::string& option, bool trains);

/// Assigns `--name=value` arguments only, for a program that is not an experiment.
void assign_arguments(Fields& fields, std::span<const std::string> arguments);
}  // namespace bochner
