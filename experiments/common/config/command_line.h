// The command line of a program, and its --help.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/common/config/experiment.h"
#include "experiments/common/config/fields.h"

namespace bochner {

/// A value for a field, and its source.
struct Assignment {
  std::string name;
  std::string value;
  std::string where;
};
using Assignments = std::vector<Assignment>;

/// Those of `--name=value` arguments. An Error names the mistake and, for an unknown name, the nearest valid one.
Assignments from_command_line(const Fields& fields, std::span<const std::string> arguments);

/// Refuses options that would change nothing beside the values that all have by now (Field::only).
void require_effect(const Fields& fields, const Assignments& command_line);

/// The list of options in --help.
std::string options_text(const Fields& fields);

/// The text of --help.
std::string help_text(const Experiment& experiment, const Fields& fields);

}  // namespace bochner
