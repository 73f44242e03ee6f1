// ListOps of the Long Range Arena: ten-way classification of long expressions of MIN, MAX, MED and SM.
//
//   const TaskData data = listops::load_task({.place = {"data/listops"}}, say);     // made where it is missing
//   Loader batches(data.train, {.batch_size = 32, .max_length = data.task.max_length});
//
// See expression.h for the language, tokenizer.h for the two tokenisations, generator.h for
// how expressions are drawn.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "datasets/arena_archive.h"
#include "datasets/listops/files.h"
#include "datasets/listops/tokenizer.h"
#include "datasets/task.h"

namespace bochner::listops {

/// Which columns a file has.
enum class Layout {
  lra,  ///< a header `Source<TAB>Target`; expression, tab, value
  nyu,  ///< no header; value, tab, expression: the original files of Nangia and Bowman
};

struct ReadOptions {
  Tokenisation tokenisation = Tokenisation::fixed;
  /// Longer expressions keep their first `max_length` tokens.
  int64_t max_length = 2000;
  /// Evaluate every expression, and refuse a file with a label that is not its value.
  bool check_labels = true;
  Layout layout = Layout::lra;
  /// A file that takes more memory is refused. The published one for training takes 100 MB.
  int64_t most_bytes = int64_t{1} << 32;
};

/// Reads a table, plain or gzip. `name` is the data set's, for messages. Malformed rows, wrong labels and a file
/// without expressions are Errors with file, row, column and character. Each token takes one byte of memory.
std::shared_ptr<const PackedDataset<uint8_t>> read(const std::filesystem::path& path, const std::string& name,
                                                   const ReadOptions& options = {});

struct TaskOptions {
  ArenaFolder place = {};
  GeneratorOptions generator;
  ReadOptions read;
  /// Use three files without a manifest as they are, such as the official ones, or those of the arena's archive;
  /// `generator` then does not apply to them.
  bool found = false;
};

/// Where such files are, below the folder of the data sets: in `listops` if that holds files other than generated ones,
/// else in the arena's archive or where it is unpacked.
ArenaFolder find(const std::filesystem::path& data);

/// What a model must know of the data, without loading them. Its max_length is that of the read options.
Task task(const TaskOptions& options);
/// The task with its data, which are generated first if the folder has none (ensure_files). An Error if the folder
/// holds files of unknown origin and `found` is not set, or if it is set and there are none.
TaskData load_task(const TaskOptions& options, const Say& say);

}  // namespace bochner::listops
