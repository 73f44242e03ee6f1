// Text of the Long Range Arena: is a review of IMDb positive? Read byte by byte, up to 4,000 of them.
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

/// What validation is.
enum class Split {
  /// The last tenth of each class of the training set by number; training is the rest. Reviews of one film often have
  /// numbers close to each other: of the 2,500 published ones that this holds out, 871 are of films of the rest.
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

/// What a model must know of the data, without them: 2 classes, 257 ids.
Task task(const TaskOptions& options);
/// The task with its data, all of them in memory.
TaskData load_task(const TaskOptions& options, const Say& say);

}  // namespace bochner::text
