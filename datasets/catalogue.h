// The files of public data sets, as their publishers distribute them: what `./run data check` looks for.
//
//   for (const KnownSet& set : known_sets()) {
//     for (const KnownFile& file : set.files) fmt::print("{}\n", check_file("data", file).what);
//   }
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "datasets/manifest.h"

namespace bochner {

struct KnownFile {
  std::string path;  ///< below the folder of the data sets; the same with `.gz` behind it serves as well
  int64_t bytes;     ///< unpacked
  std::string sha256;
};

struct KnownSet {
  std::string name;
  std::string source;  ///< where its files are to be had
  std::vector<KnownFile> files;
};

const std::vector<KnownSet>& known_sets();

struct PublishedFile {
  std::string set;
  std::string sha256;  ///< of the unpacked bytes
};

/// The known files that are called as this one is, whatever its folder, plain or packed: where the folder has the name
/// of one of these sets, that set's alone.
std::vector<PublishedFile> published_as(const std::filesystem::path& file);

struct CheckedFile {
  std::filesystem::path path;  ///< of the file found; where none is, of the one that should be there
  FileState state;
  std::string what;  ///< what is wrong, empty if all is right
};

/// Compares size and SHA-256 of the unpacked bytes. A damaged gzip file counts as one of a wrong hash.
CheckedFile check_file(const std::filesystem::path& folder, const KnownFile& file);

/// A folder with a manifest: each file of it.
std::vector<CheckedFile> check_manifest(const std::filesystem::path& folder);

}  // namespace bochner
