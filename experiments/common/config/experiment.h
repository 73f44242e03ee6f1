// An experiment: its name, its presets and the papers' numbers. The files presets/*.ini and paper.csv next to its
// main.cpp are embedded at build time, so the binary runs from anywhere.
//
//   const Experiment kLra{"lra", "Long Range Arena: ...", embedded_resources()};
//
// A preset is a protocol. PROTOCOL.ini has the values for all its tasks, PROTOCOL.TASK.ini those for one task, and
// PROTOCOL.TASK.ATTENTION.ini those for one mechanism on that task. They are read in this order; later values win. With
// `tasks = A B` in PROTOCOL.ini, the preset is refused for other tasks.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bochner {

struct ReportFigure;
struct RunRecord;

/// A file embedded in the binary.
struct Resource {
  std::string_view name;  ///< presets: file name without `.ini`
  std::string_view text;
};

struct Resources {
  std::vector<Resource> presets;
  std::string_view paper;  ///< paper.csv, empty if the experiment has none
};

/// The embedded files of the running program. Each experiment's CMake target defines this function.
const Resources& embedded_resources();

/// The options of all programs that only affect the training of runs, together with `and_these`.
std::vector<std::string> options_of_training(std::vector<std::string> and_these = {});

struct Experiment {
  std::string name;     ///< as in `./run NAME` and runs/NAME/
  std::string summary;  ///< one line for --help
  Resources resources;
  /// Whether its models store activations in bf16 under --precision=bf16 (layers/mixed_precision.h). Other experiments
  /// refuse that precision on the CPU, where no product rounds its factors, so it would change nothing.
  bool stores_bf16 = false;
  /// Whether it trains. If it only measures, options_of_training() are refused, since they would change nothing.
  bool trains = true;
  /// Options of all programs that change nothing here: --help omits them, and the command line refuses them.
  std::vector<std::string> unused = {};
  /// Options of all programs that it refuses itself, with its own reason, whatever their value: --help omits them, too.
  std::vector<std::string> refused = {"sequence-shards"};
  /// Its options that name the folder of a run; the program then uses that run's settings, as for --evaluate.
  std::vector<std::string> of_run = {};
  /// Its options that name the output of one call, which a list of tasks or attentions would write again and again.
  std::vector<std::string> of_one = {};
  /// Pictures and tables for report.html, of one run and of all runs of a call.
  std::function<std::vector<ReportFigure>(const std::vector<RunRecord>&)> figures = {};

  /// The names of protocols: the first parts of the presets' names, each listed once.
  std::vector<std::string> protocols() const;
  /// Whether it takes this option of all programs: --help omits the others.
  bool takes(const std::string& option) const;
  /// Null if there is no such preset file.
  const Resource* preset(std::string_view file_name) const;
};

}  // namespace bochner
