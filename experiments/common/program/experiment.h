// What an experiment is: its name, its presets and the papers' numbers. The files presets/*.ini and paper.csv beside
// its main.cpp are embedded when it is built, so that the binary runs from anywhere.
//
//   const Experiment kLra{"lra", "Long Range Arena: ...", &embedded_resources()};
//
// A preset is a protocol: PROTOCOL.ini holds what all its tasks share, PROTOCOL.TASK.ini what one task needs, and
// PROTOCOL.TASK.ATTENTION.ini what one mechanism needs there; they are read in this order, later values win.
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

/// Those of the program that is running. Each experiment's CMake target defines it.
const Resources& embedded_resources();

struct Experiment {
  std::string name;     ///< as in `./run NAME` and runs/NAME/
  std::string summary;  ///< one line for --help
  Resources resources;
  /// Do its models store activations in bf16 under --precision=bf16 (layers/mixed_precision.h)? On the CPU, where no
  /// product rounds its factors, that precision is refused to others: it would change nothing.
  bool stores_bf16 = false;
  /// Does it train? Where it only measures, --seeds, --resume, --init and --bench are refused: they would change
  /// nothing.
  bool trains = true;
  /// Options of all programs that change nothing here: --help leaves them out, and the command line may not hold them.
  std::vector<std::string> unused = {};
  /// Numbers that follow from a finished run, for its results.json.
  std::function<std::vector<std::pair<std::string, double>>(const RunRecord&)> derived = {};
  /// Pictures and tables for report.html: of one run, and of all runs of a call.
  std::function<std::vector<ReportFigure>(const std::vector<RunRecord>&)> figures = {};

  /// The names of protocols: the first parts of the presets' names, each once.
  std::vector<std::string> protocols() const;
  /// Null if there is no such preset file.
  const Resource* preset(std::string_view file_name) const;
};

}  // namespace bochner
