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

struct CheckedFile {
  std::filesystem::path path;  ///< of the file found, or of the missing one
  FileState state;
  std::string what;  ///< what is wrong, empty if all is right
};

struct KnownFile {
  std::string path;  ///< below the folder of the data sets; the same with `.gz` or `.zst` appended serves as well
  int64_t bytes;     ///< unpacked
  std::string sha256;
};

/// Whether files of other origin have the same names, as with `vocab.txt`, so that only the folder tells which file it
/// is.
enum class FileNames : unsigned char { own, common };

struct KnownSet {
  std::string name;
  std::string source;  ///< where to get its files
  std::vector<KnownFile> files;
  FileNames names = FileNames::own;
  /// What to put into the folder, and where to get it, if not the files as listed.
  std::string remedy = {};
  /// Checks the files when they are parts of an archive.
  std::vector<CheckedFile> (*check)(const std::filesystem::path& folder, const std::vector<KnownFile>& files) = nullptr;
};

const std::vector<KnownSet>& known_sets();

/// A set for whose files no hash is known here: whether it is there, and a note: how to get it, in the words of the
/// Error with which a program ends that lacks it, or what happens to it in an archive.
struct NamedSet {
  std::string name;
  std::filesystem::path path;  ///< its folder, or the archive
  bool there;
  std::string note;
};

/// The named sets of a folder of data sets, except those with a manifest.
std::vector<NamedSet> named_sets(const std::filesystem::path& data);

struct PublishedFile {
  std::string set;
  std::string sha256;  ///< of the unpacked bytes
  bool expected;       ///< whether a file of this name in this folder should be that one
};

/// The known files with the name of this one, plain or packed, in any folder; if the folder has the name of one of
/// these sets, only that set's.
std::vector<PublishedFile> published_as(const std::filesystem::path& file);

/// Compares size and SHA-256 of the unpacked bytes. A damaged packed file counts as one with a wrong hash.
CheckedFile check_file(const std::filesystem::path& folder, const KnownFile& file);
/// All files of a set.
std::vector<CheckedFile> check_set(const std::filesystem::path& folder, const KnownSet& set);

/// The folders with a manifest: what was made here, or copied out of the arena's archive.
std::vector<std::filesystem::path> made_sets(const std::filesystem::path& data);
/// Checks each file of one of them.
std::vector<CheckedFile> check_manifest(const std::filesystem::path& folder);

}  // namespace bochner
