// Texts as one stream of tokens on disk, made once and then read piece by piece, for pretraining on more text than fits
// into memory.
//
//   const TokenCache cache = token_cache("data/tokens", {.texts = {"data/imdb"}}, say);
//   TokenStream train(cache, cache.train, 126);        // example i: tokens i 126 ... (i + 1) 126 - 1
//
// A folder of the cache is named after its recipe: the texts with their sizes and times, the vocabulary, the options.
// It holds `train.i32`, `valid.i32` and `test.i32`, ids of 4 bytes, the least significant first (numpy.fromfile(file,
// "<i4")), `sources.txt` with the SHA-256 of the texts, `pieces.txt`, a vocab.txt, where the vocabulary was trained,
// and `manifest.json`, by which they are verified. The folder is made whole or not at all.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/making.h"
#include "datasets/tokenizers/wordpiece.h"
#include "engine/io/file.h"

namespace bochner::text {

struct TokenCacheOptions {
  std::vector<std::string> texts;  ///< files, folders, archives (documents.h)
  /// Texts for validation and test. If there are none, documents of `texts` are held out: of every twenty, the last for
  /// the test and the one before it for validation.
  std::vector<std::string> valid = {}, test = {};
  /// A vocab.txt, or the folder of a pretrained model; empty: one is trained from the documents for training.
  std::filesystem::path vocabulary = {};
  int64_t vocabulary_size = 8192;  ///< of a trained one
  bool lower_case = true;          ///< for a trained one, and for a vocab.txt
  /// A vocabulary that was trained before, instead of a new one; empty: none.
  std::vector<std::string> pieces = {};
};

struct TokenCache {
  struct Part {
    std::filesystem::path path;
    int64_t tokens;
  };
  std::filesystem::path folder;
  std::shared_ptr<const Wordpiece> tokenizer;
  Part train, valid, test;
  bool held_out_valid = true, held_out_test = true;
};

/// The cache of these texts below `folder`, made if it does not exist. Documents end with [SEP]. `<unk>`, as in
/// WikiText, is [UNK]; other special tokens in texts are text. Tells `say` what it does, how many tokens there are, how
/// many words are unknown, and how often bytes were not UTF-8 and became U+FFFD. The files of the cache are added to
/// the DataLog as what was read.
TokenCache token_cache(const std::filesystem::path& folder, const TokenCacheOptions& options, const Say& say);

/// Pieces of equal length of a part of the cache, each read from disk on request. An incomplete last piece is left out.
/// Labels are 0.
class TokenStream final : public Dataset {
 public:
  /// An Error if the part is shorter than one piece.
  TokenStream(const TokenCache& cache, const TokenCache::Part& part, int64_t length);

  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }
  int64_t length(int64_t /*example*/, int /*sequence*/ = 0) const override { return length_; }
  /// An Error if an id is not in the vocabulary.
  void copy_tokens(int64_t example, int sequence, std::span<int64_t> ids) const override;
  int64_t label(int64_t /*example*/) const override { return 0; }

 private:
  std::string name_;
  InputFile file_;
  int64_t vocabulary_;
  int64_t length_;
  int64_t size_;
};

/// How often each id occurs in a part.
std::vector<int64_t> token_counts(const TokenCache& cache, const TokenCache::Part& part);

}  // namespace bochner::text
