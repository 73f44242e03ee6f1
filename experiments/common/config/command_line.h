// The command line of a program, and its --help.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/common/config/experiment.h"
#include "experiments/common/config/fields.h"
#include "experiments/common/process/terminal.h"

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

/// Characters of a line of --help that is not written to a terminal.
inline constexpr int kHelpWidth = 110;

/// The list of options in --help, in lines of 60 to 140 characters: as wide as the terminal, unless told.
std::string options_text(const Fields& fields, int width = terminal_columns(stdout, kHelpWidth));

/// The text of --help.
std::string help_text(const Experiment& experiment, const Fields& fields,
                      int width = terminal_columns(stdout, kHelpWidth));

}  // namespace bochner
