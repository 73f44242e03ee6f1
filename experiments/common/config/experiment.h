// An experiment: its name, its presets and the papers' numbers. The files presets/*.ini and paper.csv beside its
// main.cpp are embedded when it is built, so that the binary runs from anywhere.
//
//   const Experiment kLra{"lra", "Long Range Arena: ...", embedded_resources()};
//
// A preset is a protocol. PROTOCOL.ini has the values for all its tasks, PROTOCOL.TASK.ini those for one task, and
// PROTOCOL.TASK.ATTENTION.ini those for one mechanism on it. They are read in this order; later values win. With `tasks
// = A B` in PROTOCOL.ini, the preset is refused for other tasks.
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

/// The files of the running program. Each experiment's CMake target defines this function.
const Resources& embedded_resources();

/// Options of all programs that only the training of runs obeys, and these.
std::vector<std::string> options_of_training(std::vector<std::string> and_these = {});

struct Experiment {
  std::string name;     ///< as in `./run NAME` and runs/NAME/
  std::string summary;  ///< one line for --help
  Resources resources;
  /// Whether its models store activations in bf16 under --precision=bf16 (layers/mixed_precision.h). Others refuse that
  /// precision on the CPU, where no product rounds its factors and it would change nothing.
  bool stores_bf16 = false;
  /// Whether it trains. If it only measures, options_of_training() are refused, since they would change nothing.
  bool trains = true;
  /// Options of all programs that change nothing here: --help omits them, and the command line may not have them.
  std::vector<std::string> unused = {};
  /// Options of all programs that it refuses by itself, with its reason, whatever their value: --help omits them, too.
  std::vector<std::string> refused = {"sequence-shards"};
  /// Its options that name the folder of a run; the program then uses the settings of that run, as for --evaluate.
  std::vector<std::string> of_run = {};
  /// Its options that name what one call writes, which a list of tasks or attentions would write again and again.
  std::vector<std::string> of_one = {};
  /// Pictures and tables for report.html: of one run, and of all runs of a call.
  std::function<std::vector<ReportFigure>(const std::vector<RunRecord>&)> figures = {};

  /// The names of protocols: the first parts of the presets' names, each once.
  std::vector<std::string> protocols() const;
  /// Whether it takes this option of all programs: --help omits the others.
  bool takes(const std::string& option) const;
  /// Null if there is no such preset file.
  const Resource* preset(std::string_view file_name) const;
};

}  // namespace bochner
