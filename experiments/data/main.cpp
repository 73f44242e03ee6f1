// `data check` and `data make`: see README.md.
#include <fmt/format.h>

#include <algorithm>

#include "datasets/catalogue.h"
#include "datasets/listops/files.h"
#include "datasets/pairs/films.h"
#include "datasets/pathfinder/files.h"
#include "datasets/pathfinder/samples.h"
#include "engine/error.h"
#include "engine/io/png.h"
#include "engine/nearest.h"
#include "engine/parallel.h"
#include "experiments/common/config/command_line.h"
#include "experiments/common/process/interrupt.h"
#include "experiments/common/process/output.h"
#include "experiments/common/program/program.h"
#include "experiments/common/program/settings.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

/// Options of every command.
struct Invocation {
  int threads = 0;
  bool help = false;
  bool version = false;

  void fields(Fields& f) {
    f("threads", threads, "CPU threads; 0: one per core; the files do not depend on it").at_least(0).at_most(1024);
    f("help", help, "print this, and stop").command_line_only();
    f("version", version, "print what this program was built from, and stop").command_line_only();
  }
};

struct Options : Invocation {
  std::string data = "data";

  void fields(Fields& f) {
    f("data", data, "folder of the data sets");
    Invocation::fields(f);
  }
};

/// Options of commands that make files.
struct MakingOptions : Options {
  uint64_t seed = 0;

  void fields(Fields& f) {
    f("seed", seed, "seed of the generator; the tasks of lra that make their own files have seed 0");
    Options::fields(f);
  }
};

/// Options of `make pathfinder`.
struct PathfinderOptions : MakingOptions {
  int64_t size = 32;
  std::string difficulty = "hard";
  int64_t count = pathfinder::kPublished;

  void fields(Fields& f) {
    f("size", size,
      "of the images, in pixels: 32 (Pathfinder), 64, 128 (Path-X) or 256; 16, 20, 24 and 28 are ours, easier");
    f("difficulty", difficulty,
      "easy, intermediate or hard: contours of 6, 9 or 14 dashes, at size 16 of 3, 4 or 5, in "
      "between as many as lie between; or a number of dashes");
    f("count", count, "images to make").at_least(1).at_most(10000000);
    MakingOptions::fields(f);
  }
};

/// Options of `make films`.
struct FilmsOptions : MakingOptions {
  int64_t rounds = pairs::FilmsOptions{}.rounds;
  Partial partial{};

  void fields(Fields& f) {
    f("rounds", rounds,
      "how often each review for training is paired with another of its film; the task films of lra reads no such "
      "files, and has --films.rounds")
        .at_least(1)
        .at_most(30);
    partial.field(f, "take fewer reviews than the published ones");
    MakingOptions::fields(f);
  }
};

/// Options of `show pathfinder`.
struct SamplesOptions : Invocation {
  uint64_t seed = 0;
  int64_t size = 32;
  std::string out = "pathfinder.png";

  void fields(Fields& f) {
    f("size", size,
      "of the images, in pixels: 32 (Pathfinder), 64, 128 (Path-X) or 256; 16, 20, 24 and 28 are ours, easier");
    f("out", out, "file of the picture");
    f("seed", seed, "seed of the generator");
    Invocation::fields(f);
  }
};

/// The state of one data set: one line, and one more for each broken file.
class Check {
 public:
  void print(const std::string& set, const std::vector<CheckedFile>& files, const std::string& how_to_get) {
    const auto count = [&](auto... states) {
      return std::count_if(files.begin(), files.end(), [&](auto& file) { return ((file.state == states) || ...); });
    };
    const auto right = count(FileState::right);
    const auto broken = count(FileState::wrong_size, FileState::wrong_hash);
    const auto all = static_cast<std::ptrdiff_t>(files.size());
    const bool any = count(FileState::missing) < all;
    std::string state = right == all ? "right" : broken > 0 ? "BROKEN" : any ? "incomplete" : "missing";
    fmt::print("{:<24} {:<10} {} of {} files{}\n", set, state, right, all, right == all ? "" : "; " + how_to_get);
    for (const CheckedFile& file : files) {
      if (!any || file.state == FileState::right) continue;
      const std::string path = file.path.string();
      fmt::print("  {}{}\n", file.what.starts_with(path) ? "" : path + ": ", file.what);  // an Error names it itself
    }
    broken_ += broken;
  }

  /// A set whose manifest itself is broken.
  void print_broken(const std::string& set, const std::string& what) {
    fmt::print("{:<24} {:<10} if it was made by ./run, remove the folder, and it will be made again\n  {}\n", set,
               "BROKEN", what);
    ++broken_;
  }

  /// A set that, for example, this user may not read.
  static void print_unreadable(const std::string& set, const std::string& what) {
    fmt::print("{:<24} {:<10} {}\n", set, "unreadable", what);
  }

  /// An Error if a file is broken.
  void finish() const {
    flush_output();
    if (broken_ > 0) fail("{} of the files found are broken; remove them and get them again", broken_);
  }

 private:
  std::ptrdiff_t broken_ = 0;
};

void check(const Options& options, Fields& fields) {
  const bool given = fields.at("data").was_given();
  namespace fs = std::filesystem;
  if (given && !fs::exists(options.data)) fail("--data: there is no folder {}", options.data);
  if (fs::exists(options.data) && !fs::is_directory(options.data)) fail("--data: {} is no folder", options.data);
  Check report;
  for (const fs::path& folder : made_sets(options.data)) {
    const std::string set = folder.lexically_relative(options.data).string();
    try {
      report.print(set, check_manifest(folder), "remove the folder, and it will be made again");
    } catch (const Error& error) {
      report.print_broken(set, error.what());
    }
  }
  for (const KnownSet& set : known_sets()) {
    std::string names;
    for (const KnownFile& file : set.files) {
      names += (names.empty() ? "" : ", ") + fs::path(file.path).filename().string();
    }
    const fs::path folder = fs::path(options.data) / fs::path(set.files.front().path).parent_path();
    try {
      report.print(set.name, check_set(options.data, set),
                   set.remedy.empty() ? fmt::format("put {} into {}, from {}", names, folder.string(), set.source)
                                      : fmt::format("{}: {}", folder.string(), set.remedy));
    } catch (const fs::filesystem_error& error) {
      Check::print_unreadable(set.name, fmt::format("{}: {}", error.path1().string(), error.code().message()));
    }
  }
  for (const NamedSet& set : named_sets(options.data)) {
    fmt::print("{:<24} {:<10} {}{}\n", set.name, set.there ? "found" : "missing", set.path.string(),
               set.note.empty() ? "" : ": " + set.note);
  }
  report.finish();
}

void say(const std::string& line) {
  fmt::print("{}\n", line);
  flush_output();
}

void make_listops(const MakingOptions& options, Fields&) {
  listops::GeneratorOptions generator;
  generator.seed = options.seed;
  listops::ensure_files(std::filesystem::path(options.data) / "listops", generator, say);
}

void make_pathfinder(const PathfinderOptions& options, Fields&) {
  const pathfinder::GeneratorOptions generator = {.size = options.size,
                                                  .dashes = pathfinder::dashes_of(options.size, options.difficulty),
                                                  .count = options.count,
                                                  .seed = options.seed};
  pathfinder::check(generator);
  const std::filesystem::path below = pathfinder::folder_of(generator.size, generator.dashes);
  // There are too many images to remove while a signal ends the program.
  const StopNote note("interrupted; the next start removes the images that were drawn until now");
  pathfinder::ensure_files(std::filesystem::path(options.data) / below, generator, say);
}

void make_films(const FilmsOptions& options, Fields&) {
  const std::filesystem::path data = options.data;
  pairs::ensure_films(data / "films", text::read_imdb(data / "imdb", options.partial),
                      {.seed = options.seed, .rounds = options.rounds}, say);
  say(
      fmt::format("films: the files are for other programs; the task films of lra draws the same pairs itself, with "
                  "--films.rounds={} --films.data-seed={}{}",
                  options.rounds, options.seed, options.partial.taken ? " --films.partial" : ""));
}

void show_pathfinder(const SamplesOptions& options, Fields&) {
  write_png(options.out, pathfinder::samples(options.size, options.seed));
  say(fmt::format("{}: images easy, intermediate and hard, from above; on the left both discs lie on one contour",
                  options.out));
}

/// Reads the options of a command and runs it, or prints the options.
template <class O>
void carry_out(const std::string& command, const std::vector<std::string>& arguments, void (*body)(const O&, Fields&)) {
  O options;
  Fields fields = Fields::of(options);
  assign_arguments(fields, arguments);
  if (answered(fields, fmt::format("Usage: ./run data {} [--OPTION=VALUE ...]\n", command))) return;
  set_threads(options.threads);
  body(options, fields);
}

/// Removes and returns the name of a command or set before the options; empty if there is none.
std::string take_name(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with('-')) return "";
  std::string name = arguments.front();
  arguments.erase(arguments.begin());
  return name;
}

void make(std::vector<std::string> arguments) {
  const std::string set = take_name(arguments);
  if (set == "fashion-mnist") {
    fail("data: Fashion-MNIST is fetched with apt, by `./run data make fashion-mnist --data DIR`");
  } else if (set.empty() || set == "listops") {
    carry_out("make listops", arguments, make_listops);
  } else if (set == "pathfinder") {
    carry_out("make pathfinder", arguments, make_pathfinder);
  } else if (set == "films") {
    carry_out("make films", arguments, make_films);
  } else {
    const std::vector<std::string> sets = {"listops", "pathfinder", "films", "fashion-mnist"};
    fail("data make: '{}' is none of what can be made{}", set, valid_names(set, sets));
  }
}

void run(std::vector<std::string> arguments) {
  const std::string command = take_name(arguments);
  if (command == "check") {
    carry_out("check", arguments, check);
  } else if (command == "make") {
    make(std::move(arguments));
  } else if (command == "show") {
    const std::string set = take_name(arguments);
    if (set != "pathfinder") fail("data: there are pictures of one set: ./run data show pathfinder");
    carry_out("show pathfinder", arguments, show_pathfinder);
  } else if (command.empty()) {
    Options options;
    Fields fields = Fields::of(options);
    if (arguments.empty()) arguments.emplace_back("--help");
    assign_arguments(fields, arguments);
    if (answered(fields,
                 "Usage: ./run data check [--OPTION=VALUE ...]\n       ./run data make "
                 "listops|pathfinder|films|fashion-mnist [--OPTION=VALUE ...]\n       ./run data show pathfinder "
                 "[--OPTION=VALUE ...]\nEach command has options of its own: ./run data make films --help\n"))
      return;
    fail("data: say `data check` or `data make` before the options");
  } else {
    const std::vector<std::string> commands = {"check", "make", "show"};
    fail("data: there is no command '{}'{}", command, valid_names(command, commands));
  }
}

}  // namespace

int main(int argc, char** argv) {
  bochner::Log log;
  return bochner::exit_code_of(log, [&] { run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc)); });
}
