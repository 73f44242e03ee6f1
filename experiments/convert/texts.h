// The unlabelled text of a conversion, in batches: pieces of any text, or the training sentences of a GLUE task.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/making.h"
#include "datasets/tokenizers/wordpiece.h"
#include "experiments/learners/examples.h"

namespace bochner::convert {

/// Text to learn from, in an order that depends on the seed, and text that is held out to measure on. Batches have
/// `ids` (n, length) and, if their texts differ in length, `mask` and `types`.
struct Texts {
  std::shared_ptr<const Wordpiece> tokenizer;
  std::unique_ptr<Feed> train, held_out;
};

struct TextOptions {
  std::filesystem::path vocabulary;  ///< the folder of the model
  int64_t longest = 128;             ///< tokens of an example
  int64_t batch = 16;
  uint64_t seed = 1;
  bool special_in_text = true;  ///< for sentences_of (wordpiece.h); in documents special tokens are text
};

/// [CLS] piece [SEP], each `longest` tokens long: all documents in these files, folders and archives (documents.h), one
/// after the other, as tokens in `cache` (token_cache.h). One document in twenty is held out.
Texts pieces_of(const std::vector<std::string>& files, const std::filesystem::path& cache, const TextOptions& options,
                const Say& say);

/// The sentences or sentence pairs of a task's training set, from the folder `glue`, as `./run glue` feeds them to the
/// model; labels are not read. The last twentieth of the rows, at least one batch, is held out. Batches hold rows of
/// similar lengths.
Texts sentences_of(const std::string& task, const std::filesystem::path& glue, const TextOptions& options,
                   const Say& say);

}  // namespace bochner::convert
