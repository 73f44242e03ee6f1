// Reads data sets of the Long Range Arena from the archive that its authors publish, lra_release.gz: a gzipped tar
// archive of 7.7 GB with the tables of ListOps and Retrieval and millions of images of Pathfinder.
//
//   if (const auto place = arena_folder("data", "tsv_data")) copy_from_arena(*place, {.name = "tsv_data", ...}, say);
//
// An archive can only be read from end to end. So the first use of a set copies it, and nothing else, to where tar
// would put it, such as `data/lra_release/lra_release/tsv_data`: all or nothing (making.h), in one pass and with little
// memory. Later uses read the copy and check it against its manifest; they do not need the archive. Sets that were
// unpacked by hand are read as they are.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "datasets/making.h"

namespace bochner {

/// The name of the archive.
inline constexpr const char* kArenaArchive = "lra_release.gz";

/// Where a set of the arena is, or will be.
struct ArenaFolder {
  std::filesystem::path folder;
  std::optional<std::filesystem::path> archive = {};  ///< where it can be copied from
};

/// The folder of this name in the arena's archive, such as `pathfinder32/curv_contour_length_14`: unpacked below
/// `data`, else to be copied from `data/lra_release.gz` (or .tar.gz, .tar.zst, .tar, .zip). Nothing if there is
/// neither.
std::optional<ArenaFolder> arena_folder(const std::filesystem::path& data, const std::string& name);

/// Whether the folder exists and holds anything. An empty one does not hide the archive, and neither do leftovers of a
/// killed process or another system, such as `.making` and `.DS_Store`: names that begin with a dot do not count.
bool holds_anything(const std::filesystem::path& folder);

/// The parts of the archive that make up a set.
struct ArenaSet {
  std::string name;                ///< of its folder in the archive
  std::vector<std::string> parts;  ///< files in it, or folders of files and of folders of files
  std::string parts_in_words;
  /// The most bytes that the set may have, well above what is published, so that no archive fills the disk. Each file
  /// counts as at least 4 KiB, the block that it takes.
  int64_t most_bytes = 0;
  int64_t header_rows = 0;  ///< lines of a file that are not examples
};

/// Copies the set unless it is there already. If the archive holds it twice, the deeper copy is taken, which is the one
/// in `lra_release/lra_release`. An archive that lacks the set, holds more of it than allowed, or is truncated or
/// damaged is an Error, and nothing is left of the copy. Without an archive, it only checks what was copied.
void copy_from_arena(const ArenaFolder& place, const ArenaSet& set, const Say& say);

/// Whether copy_from_arena made the folder.
bool is_arena_copy(const std::filesystem::path& folder);

}  // namespace bochner
