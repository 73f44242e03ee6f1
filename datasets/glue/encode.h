// The sentences of GLUE as ids of a WordPiece vocabulary, in memory.
//
//   const glue::Encoded train = glue::encode(glue::read(...), tokenizer, 128, say);
//   Loader loader(train.tokens, {.batch_size = 32});
#pragma once

#include <memory>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/glue/tables.h"
#include "datasets/loader.h"
#include "datasets/tokenizers/wordpiece.h"

namespace bochner::glue {

struct Encoded {
  /// [CLS] A [SEP], or [CLS] A [SEP] B [SEP] for pairs, with the labels of the table; for regression they are 0.
  std::shared_ptr<const PackedDataset<int32_t>> tokens;
  /// For each row, how many of its tokens are of type 0: [CLS] A [SEP]. Those after them, B [SEP], are of type 1.
  std::vector<int32_t> first;
  std::vector<float> scores;  ///< of regression
  int64_t cut = 0;            ///< rows that were longer
};

/// Each row gets at most `longest` tokens (at least 3); the longer sentence of a pair is cut first. The result does not
/// depend on the number of threads. Tells `say` how many rows were cut, and whether bytes were not UTF-8.
Encoded encode(const Table& table, const Wordpiece& tokenizer, int64_t longest, const Say& say);

/// BERT's token types for a batch of `encoded`: 1 at those of the second text of a pair, 0 at all others.
/// i64 (batch, length)
Tensor types_of(const Encoded& encoded, const Batch& batch);

}  // namespace bochner::glue
