// One command line for several runs: `--attention=performer,softmax` runs each of them, one after the other, with its
// own config and its own folder below --out, and writes one report on them all. `--task=A,B` does the same; with both,
// each attention runs on each task.
//
// This works on the words of the command line, so each run is the same as if it were started alone.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace bochner {

using Arguments = std::vector<std::string>;

/// The value of `--name=VALUE` or `--name VALUE`, the last one if there are several; nullopt if it is not given.
std::optional<std::string> argument(const Arguments& arguments, const std::string& name);
/// Whether the flag `--name` is given.
bool has_flag(const Arguments& arguments, const std::string& name);
/// The arguments without any `--name=VALUE` and `--name VALUE`; for a flag, without `--name`.
Arguments without_argument(const Arguments& arguments, const std::string& name);
Arguments without_flag(const Arguments& arguments, const std::string& name);

/// The arguments with only the last `--name=VALUE`, which is the one that counts, if there are several.
Arguments with_last_alone(const Arguments& arguments, const std::string& name);

/// The names in `--name=A,B`, each once; empty if only one is given, or none.
std::vector<std::string> compared(const Arguments& arguments, const std::string& name);

/// One of several runs: its folder below the common one, and its command line.
struct Part {
  std::filesystem::path folder;
  Arguments arguments;
};
/// Each of the parts once for each value of the option; unchanged if there are no values.
std::vector<Part> parts_by(const std::vector<Part>& parts, const std::string& option,
                           const std::vector<std::string>& values);

/// The arguments with the words after `--name A B ...`, up to the next option, joined to one word `--name=A,B,...`.
Arguments with_list(const Arguments& arguments, const std::string& name);

/// The command as one would type it in a shell.
std::string command_text(const std::string& program, const Arguments& arguments);

}  // namespace bochner
