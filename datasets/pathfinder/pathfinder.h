// Pathfinder and Path-X of the Long Range Arena: do two discs lie on the same contour? Pictures read pixel by pixel,
// row by row: 32 x 32 are 1,024 tokens (pathfinder), 128 x 128 are 16,384 (pathx).
//
//   const TaskData data = pathfinder::load_task({.place = find("data", 32, 14)}, say);
//
// Reads the published tree as well as that of files.h, and copies the published one out of the arena's archive if it is
// not unpacked. A token is a pixel, 0 ... 255; 0 is black and real, since masks come from lengths.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/arena_archive.h"
#include "datasets/partial.h"
#include "datasets/pathfinder/files.h"
#include "datasets/task.h"
#include "engine/option.h"

namespace bochner::pathfinder {

/// All images of a folder, compressed as on disk, in the order of the metadata.
struct Images {
  int64_t size = 0;                ///< pixels of a side
  std::vector<std::byte> png;      ///< end to end
  std::vector<int64_t> offsets;    ///< of each in `png`, and the end
  std::vector<uint8_t> labels;     ///< 0 or 1
  std::vector<std::string> names;  ///< `imgs/3/sample_17.png`
  int64_t left_out = 0;            ///< how many more are listed: the published empty one

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

struct ReadOptions {
  int64_t size = 32;
  /// Accept fewer images than were published, or than the manifest lists.
  Partial partial = {};
};

/// Reads `metadata/0.npy`, `metadata/1.npy` ... and the images that they name, and checks every image. The published
/// empty image is omitted, and `say` is told. Malformed lines, images that are missing, damaged, of another size or not
/// grey, and a folder with fewer images than its manifest lists or, without one, than the Long Range Arena has, are
/// Errors with file, row and reason.
std::shared_ptr<const Images> read(const std::filesystem::path& folder, const ReadOptions& options, const Say& say);

/// How images become training, validation and test set: the first 80 %, the next 10 %, and the rest.
enum class Split {
  arena,     ///< in the order of the metadata, as in the Long Range Arena's code
  shuffled,  ///< in a random order, as in SKY and Nystroemformer, but with a seed
};

inline const EnumTexts<Split> kSplits{{"arena", Split::arena}, {"shuffled", Split::shuffled}};

struct TaskOptions {
  ArenaFolder place = {};  ///< that of imgs and metadata
  ReadOptions read = {};
  Split split = Split::arena;
  uint64_t seed = 0;  ///< of the shuffled split
  /// The command that makes the images, for the Error if there are none.
  std::string make = "./run data make pathfinder";
};

/// Where the images of that size and difficulty are, below the folder of the data sets: in folder_of(size, dashes) if
/// that exists, else in the arena's archive or where it is unpacked.
ArenaFolder find(const std::filesystem::path& data, int64_t size, int64_t dashes);
/// That command.
std::string make_command(int64_t size, const std::string& difficulty, const std::string& data);
/// Where to get the images, for an Error and `data check` that name the folder first.
std::string remedy(const std::string& make);

/// What a model must know of the data, without loading them.
Task task(const TaskOptions& options);
/// The task with its data. If there are none, an Error says where to get them and how to make them.
TaskData load_task(const TaskOptions& options, const Say& say);

}  // namespace bochner::pathfinder
