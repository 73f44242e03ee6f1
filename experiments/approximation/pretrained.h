// Queries, keys and values that a pretrained BERT computes for text, and how well they are approximated (SKY Fig. 1).
#pragma once

#include <filesystem>

#include "experiments/approximation/measure.h"
#include "experiments/common/program/figures.h"
#include "layers/models/bert.h"

namespace bochner {

/// [CLS], the first `length` - 2 tokens of a document and [SEP], i64 (1, length), for `count` documents that are long
/// enough. An Error if there are fewer. `texts` are read as by text_files(); `folder` is that of the tokenizer.
std::vector<Tensor> pieces_of(const std::vector<std::string>& texts, const std::filesystem::path& folder,
                              int64_t length, int64_t count);

/// The inputs of the attention of each block, f64, when the model reads `ids` (1, length).
std::vector<AttentionInputs> attention_inputs(Bert& bert, const Tensor& ids);

/// The deviation of the scores q.k / sqrt(D) of one query over all keys, for one head.
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
/// Spectral errors of all heads of all blocks on all pieces, for each length that the model can read, or for its
/// longest one: first of the model with new weights, then with its own.
Measured errors_of_heads(const TrainedHeads& asked, Log& log);

}  // namespace bochner
