// Sets of the Long Range Arena out of the archive that its authors publish, lra_release.gz: a tar archive in gzip, of
// 7.7 GB, with the tables of ListOps and Retrieval and millions of images of Pathfinder.
//
//   if (const auto place = arena_folder("data", "tsv_data")) copy_from_arena(*place, {.name = "tsv_data", ...}, say);
//
// An archive can only be read from end to end. So the first use of a set copies it, and nothing else, to where tar
// would put it, `data/lra_release/lra_release/tsv_data`, all or nothing (making.h), in one pass and in little memory.
// Later uses read the copy and check it against its manifest; they do not need the archive. What was unpacked by hand
// is read as it is.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "datasets/making.h"

namespace bochner {

/// What the archive is called.
inline constexpr const char* kArenaArchive = "lra_release.gz";

/// Where a set of the arena lies, or will lie.
struct ArenaFolder {
  std::filesystem::path folder;
  std::optional<std::filesystem::path> archive = {};  ///< where it can be copied from
};

/// The folder of this name of the arena's archive, such as `pathfinder32/curv_contour_length_14`: one that is unpacked
/// below `data`, else one to be copied from `data/lra_release.gz` (or .tar.gz, .tar.zst, .tar, .zip). Nothing where
/// there is neither.
std::optional<ArenaFolder> arena_folder(const std::filesystem::path& data, const std::string& name);

/// Whether there is a folder with anything in it. An empty one does not hide the archive, and neither does what a
/// killed process or another system left in it, such as `.making` and `.DS_Store`: names that begin with a dot do not
/// count.
bool holds_anything(const std::filesystem::path& folder);

/// What of the archive a set consists of.
struct ArenaSet {
  std::string name;                ///< of its folder in the archive
  std::vector<std::string> parts;  ///< files in it, or folders of files and of folders of files
  std::string parts_in_words;
  /// Bytes of all of it at most, well above what is published, so that no archive fills the disk. Each file counts as
  /// 4 KiB at least, the block that it takes.
  int64_t most_bytes = 0;
  int64_t header_rows = 0;  ///< lines of a file that are no example
};

/// Copies the set where it is not there yet. The archive may hold it twice, and then the copy that lies deeper is
/// taken, which is the one in `lra_release/lra_release`. An archive without it, with more of it than it may have, or
/// one that is cut or damaged, is an Error, and nothing is left of the copy. Does nothing where there is no archive,
/// but for checking what was copied.
void copy_from_arena(const ArenaFolder& place, const ArenaSet& set, const Say& say);

/// Whether copy_from_arena made the folder.
bool is_arena_copy(const std::filesystem::path& folder);

}  // namespace bochner
