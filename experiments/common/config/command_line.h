// The command line of a program, and its --help.
#pragma once

#include <map>
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

/// The assignments of `--name=value` arguments. An Error names the mistake and, for an unknown name, the nearest valid
/// one.
Assignments from_command_line(const Fields& fields, std::span<const std::string> arguments);

/// Reasons why options on a command line are refused, by the options' names.
using Refusals = std::map<std::string, std::string>;

/// The options that would change nothing, given the values that all options have by now (Field::only).
Refusals without_effect(const Fields& fields, const Assignments& command_line);
/// Refuses an option that would change nothing in any of these runs, all of which one command line asks for.
void require_effect(std::span<const Refusals> runs);

/// Width of --help in characters when it is not written to a terminal.
inline constexpr int kHelpWidth = 110;

/// The list of options in --help, in lines of 60 to 140 characters: as wide as the terminal, unless `width` is given.
std::string options_text(const Fields& fields, int width = terminal_columns(stdout, kHelpWidth));

/// For programs that are not experiments: prints what --help (`usage` and the options) or --version asks for. Returns
/// whether one of them was given.
bool answered(const Fields& fields, const std::string& usage);

/// The text of --help.
std::string help_text(const Experiment& experiment, const Fields& fields,
                      int width = terminal_columns(stdout, kHelpWidth));

}  // namespace bochner
