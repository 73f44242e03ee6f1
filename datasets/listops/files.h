// The files of generated ListOps: `basic_train.tsv`, `basic_val.tsv`, `basic_test.tsv` as the Long Range Arena names
// and lays them out (a header `Source<TAB>Target`, then expression, tab, value), and a manifest.
//
//   const Ensured files = ensure_files("data/listops", {}, [](auto& line) { fmt::print("{}\n", line); });
//   // listops: making 96000 + 2000 + 2000 expressions with seed 0 in data/listops ...
#pragma once

#include <filesystem>
#include <string>

#include "datasets/listops/generator.h"
#include "datasets/making.h"

namespace bochner::listops {

inline constexpr const char* kTrainFile = "basic_train.tsv";
inline constexpr const char* kValidFile = "basic_val.tsv";
inline constexpr const char* kTestFile = "basic_test.tsv";

/// Generates, and writes the three files and the manifest, all of them or none (making.h). With the options of the Long
/// Range Arena these are some 660 MB. Lines end with LF; the Long Range Arena's own writer ends them with CRLF, and
/// readers here take both.
Manifest write_files(const std::filesystem::path& folder, const GeneratorOptions& options);

/// Makes the three files in the folder, and the folder, unless they exist (ensure_made).
Ensured ensure_files(const std::filesystem::path& folder, const GeneratorOptions& options, const Say& say);

/// How many of the three files are there, plain or packed with gzip or Zstandard.
int files_in(const std::filesystem::path& folder);

/// The options as a manifest records them, with the version of the generator: equal options give equal files.
std::map<std::string, std::string> described(const GeneratorOptions& options);

}  // namespace bochner::listops
