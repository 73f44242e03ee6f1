// One command line for several runs: `--attention=performer,softmax` runs each of them, one after the other, with its
// own config and folder below --out, and writes one report on them all. `--task=A,B` does the same; with both, each
// attention runs on each task.
//
// It works on the words of the command line, so each run is the same as if it were started alone.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace bochner {

using Arguments = std::vector<std::string>;

/// The value of `--name=VALUE` or `--name VALUE`, the last one if there are several; none if it is not given.
std::optional<std::string> argument(const Arguments& arguments, const std::string& name);
/// Whether the flag `--name` is given.
bool has_flag(const Arguments& arguments, const std::string& name);
/// The arguments without any `--name=VALUE` and `--name VALUE`, or without `--name` for a flag.
Arguments without_argument(const Arguments& arguments, const std::string& name);
Arguments without_flag(const Arguments& arguments, const std::string& name);

/// The arguments with the last `--name=VALUE` alone, where there are several: it is the one that counts.
Arguments with_last_alone(const Arguments& arguments, const std::string& name);

/// The names of `--name=A,B`, each once; empty if it is given one, or none.
std::vector<std::string> compared(const Arguments& arguments, const std::string& name);

/// One of several runs: its folder below that of all, and its command line.
struct Part {
  std::filesystem::path folder;
  Arguments arguments;
};
/// Each of the parts once for each value of the option; as they are if there are no values.
std::vector<Part> parts_by(const std::vector<Part>& parts, const std::string& option,
                           const std::vector<std::string>& values);

/// The arguments with the words behind `--name A B ...`, up to the next option, as the one word `--name=A,B,...`.
Arguments with_list(const Arguments& arguments, const std::string& name);

/// The command as one types it in a shell.
std::string command_text(const std::string& program, const Arguments& arguments);

}  // namespace bochner
