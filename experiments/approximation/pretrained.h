// Queries, keys and values that a pretrained BERT makes of text, and how well they are approximated (SKY Fig. 1).
#pragma once

#include <filesystem>

#include "experiments/approximation/measure.h"
#include "experiments/common/program/figures.h"
#include "layers/models/bert.h"

namespace bochner {

/// [CLS] and the first `length` - 2 tokens of a document and [SEP], i64 (1, length), of `count` documents that are long
/// enough. An Error where there are fewer. `texts` as text_files reads them, `folder` that of the tokenizer.
std::vector<Tensor> pieces_of(const std::vector<std::string>& texts, const std::filesystem::path& folder,
                              int64_t length, int64_t count);

/// What the attention of each block reads, f64, where the model reads `ids` (1, length).
std::vector<AttentionInputs> attention_inputs(Bert& bert, const Tensor& ids);

/// The deviation of the scores q.k / sqrt(D) of one query over all keys, of one head.
double deviation_of_scores(const AttentionInputs& inputs);

struct TrainedHeads {
  std::filesystem::path folder;  ///< of a BERT with softmax attention, and its tokenizer
  std::vector<std::string> texts;
  std::vector<int64_t> lengths;
  std::vector<int64_t> features;
  std::vector<std::string> methods;
  int64_t pieces = 1;  ///< of text
  uint64_t seed = 1;
};

struct Measured {
  std::vector<Figure> figures;
  std::vector<NamedTable> tables;
};
/// Spectral errors of all heads of all blocks on all pieces, for each length that the model reads, or its longest one:
/// of the model with new weights, then with its own.
Measured errors_of_heads(const TrainedHeads& asked, Log& log);

}  // namespace bochner
