// Text of the Long Range Arena: is an IMDb review positive? It is read byte by byte, up to 4,000 bytes.
//
//   const TaskData data = text::load_task({.folder = "data/imdb"}, say);
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "datasets/making.h"
#include "datasets/partial.h"
#include "datasets/task.h"
#include "engine/option.h"

namespace bochner::text {

/// What the validation set is.
enum class Split {
  /// The last tenth of each class of the training set by number; training is the rest. Reviews of one film often have
  /// numbers close to each other: of the 2,500 published reviews that this holds out, 871 are about films that occur in
  /// the rest.
  held_out,
  /// The test set, as in the papers: their best model is chosen by what it is tested on. The Long Range Arena, KL and
  /// SKY all do so.
  arena,
  kl,
  skyformer,
};
inline const EnumTexts<Split> kSplits{
    {"held-out", Split::held_out}, {"arena", Split::arena}, {"kl", Split::kl}, {"skyformer", Split::skyformer}};

struct TaskOptions {
  std::filesystem::path folder = {};  ///< that of the archive, or of aclImdb
  int64_t max_length = 4000;
  Split split = Split::held_out;
  Partial partial = {};  ///< take fewer reviews than are published
};

/// What a model must know of the data, without loading them: 2 classes, 257 ids.
Task task(const TaskOptions& options);
/// The task with its data, all in memory.
TaskData load_task(const TaskOptions& options, const Say& say);

}  // namespace bochner::text
