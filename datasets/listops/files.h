// The files of generated ListOps: `basic_train.tsv`, `basic_val.tsv`, `basic_test.tsv` as the Long Range Arena names
// and lays them out (a header `Source<TAB>Target`, then expression, tab, value), and a manifest.
//
//   const EnsuredFiles files = ensure_files("data/listops", {}, [](auto& line) { fmt::print("{}\n", line); });
//   // listops: making 96000 + 2000 + 2000 expressions with seed 0 in data/listops ...
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "datasets/listops/generator.h"
#include "datasets/manifest.h"

namespace bochner::listops {

inline constexpr const char* kTrainFile = "basic_train.tsv";
inline constexpr const char* kValidFile = "basic_val.tsv";
inline constexpr const char* kTestFile = "basic_test.tsv";

/// Receives single lines of news without a line end.
using Say = std::function<void(const std::string&)>;

/// Generates, and writes the three files and the manifest, all of them or none: they are made in `.making` within the
/// folder and moved when complete; of what a process was killed at, the next call of this or ensure_files() moves the
/// rest or removes it. With the options of the Long Range Arena these are some 660 MB. Lines end with LF; the Long
/// Range Arena's own writer ends them with CRLF, and readers here take both.
Manifest write_files(const std::filesystem::path& folder, const GeneratorOptions& options);

/// What ensure_files did.
enum class Ensured {
  made,      ///< there was nothing, or a file was missing: all were made (again)
  verified,  ///< the files are those of the manifest, made with these options
  foreign,   ///< all three files are there, without a manifest: somebody else's (the official ones, say), left alone
};

/// Sees to it that the three files are in the folder, which is made if it is not there, and tells `say` what it finds
/// and does. Where another process is making them, waits for it. An Error, and nothing touched, where a file is not
/// what its manifest says, where the manifest is of other options, or where without a manifest only some of the three
/// are there.
Ensured ensure_files(const std::filesystem::path& folder, const GeneratorOptions& options, const Say& say);

/// The options as a manifest records them, with the version of the generator: equal options give equal files.
std::map<std::string, std::string> described(const GeneratorOptions& options);

}  // namespace bochner::listops
