// A BERT with 2 blocks of width 8, in a folder that programs read.
#pragma once

#include <filesystem>

#include "layers/models/hugging_face.h"

namespace bochner::test {

struct TinyBert {
  int64_t vocabulary = 234;  ///< as many ids as the tokenizer has
  double deviation = 0.3;    ///< of its weights
  bool pooler = true;
};

/// With the tokenizer of tests/golden/wordpiece.
inline void save_tiny_bert(const std::filesystem::path& folder, const TinyBert& tiny = {}) {
  BertOptions options{.vocabulary = tiny.vocabulary, .length = 32, .layers = 2, .dim = 8, .hidden = 16};
  options.attention.heads = 2;
  options.deviation = tiny.deviation;
  options.pooler = tiny.pooler;
  Generator init(1);
  Bert bert({}, options, init);
  save_pretrained(bert, folder, BOCHNER_SOURCE_DIR "/tests/golden/wordpiece");
}

}  // namespace bochner::test
