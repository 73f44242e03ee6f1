// Retrieval of the Long Range Arena: does one of two papers of the ACL Anthology Network cite the other? Two documents
// are read byte by byte, up to 4,000 bytes of each.
//
//   const TaskData data = pairs::load_aan({.place = pairs::find_aan("data")}, say);
//
// The published tables are `new_aan_pairs.{train,eval,test}.tsv`, unpacked or in the arena's archive, plain or packed
// with gzip or Zstandard. They have no header, no quoting, and five columns: the label 0.0 or 1.0, two numbers of
// papers, and two texts, which are taken as bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "datasets/arena_archive.h"
#include "datasets/partial.h"
#include "datasets/task.h"
#include "datasets/text/byte_texts.h"

namespace bochner::pairs {

/// Rows of the published tables.
inline constexpr int64_t kPublishedTrain = 147'086;
inline constexpr int64_t kPublishedValid = 18'090;
inline constexpr int64_t kPublishedTest = 17'437;

/// Where to get the tables, for an Error and `data check` that name the folder first.
std::string aan_remedy();
/// The table of `train`, `eval` or `test`, plain or packed; nothing if it does not exist.
std::optional<std::filesystem::path> aan_table(const std::filesystem::path& folder, const std::string& part);
/// Where the tables are, below the folder of the data sets: in `retrieval` if that exists, else in the arena's archive
/// or where it is unpacked.
ArenaFolder find_aan(const std::filesystem::path& data);

/// Reads a table. The first `max_length` bytes of each text are kept, and never more than 10,000. A row without exactly
/// five fields, a label that is neither 0.0 nor 1.0, an empty document and more rows than any published table has are
/// Errors with file, row and column.
std::shared_ptr<const text::ByteTexts> read_aan(const std::filesystem::path& path, const std::string& name,
                                                int64_t max_length);

struct AanOptions {
  ArenaFolder place = {};
  int64_t max_length = 4000;  ///< of each document
  Partial partial = {};       ///< take fewer rows than are published
};

/// What a model must know of the data, without loading them.
Task aan_task(const AanOptions& options);
TaskData load_aan(const AanOptions& options, const Say& say);

}  // namespace bochner::pairs
