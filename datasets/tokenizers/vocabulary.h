// The vocabulary of a WordPiece tokenizer and its options, from the files that BERT models are published with. Files
// are not trusted: sizes are bounded, and an Error names file, line or token.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace bochner {

/// The options for preparing text before it is split into pieces, and for the form of pieces. The defaults are those of
/// bert-base-uncased.
struct WordpieceOptions {
  bool lower_case = true;
  std::optional<bool> strip_accents;  ///< not set: the same as lower_case
  bool clean_text = true;             ///< control characters are dropped
  bool split_chinese = true;          ///< each Chinese character is a word
  int32_t longest_word = 100;         ///< in characters; a longer word becomes [UNK]
  std::string prefix = "##";          ///< of pieces that continue a word
};

/// A token that is found in text as a whole, before any other step.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = true;  ///< not found in text if special tokens in text are switched off
};

struct WordpieceVocabulary {
  std::string file;                 ///< for messages
  std::vector<std::string> pieces;  ///< by id; empty where an id has none
  std::vector<AddedToken> added;
  int32_t unknown = 0, begin = 0, end = 0, padding = 0, mask = 0;  ///< ids of [UNK], [CLS], [SEP], [PAD], [MASK]
  WordpieceOptions options;
};

/// Reads `vocab.txt`, which may be packed with gzip: one token per line, whose id is the number of the line, from 0. It
/// must hold [PAD], [UNK], [CLS], [SEP] and [MASK] and each token only once, and be valid UTF-8, which may begin with a
/// byte order mark.
WordpieceVocabulary read_vocabulary(const std::filesystem::path& path, const WordpieceOptions& options = {});

/// Reads a folder in the form of published models: `tokenizer.json` or, if there is none, `vocab.txt`. For
/// lower-casing, accents and Chinese characters, `tokenizer_config.json` takes precedence over tokenizer.json, unless
/// its tokenizer_class is a general one, such as PreTrainedTokenizerFast. The names of the five special tokens come
/// from it, from `special_tokens_map.json`, or are the common ones. An Error names a token that another file adds and
/// tokenizer.json lacks, or a post_processor that puts ids other than those of [CLS] and [SEP] around texts.
WordpieceVocabulary read_pretrained_vocabulary(const std::filesystem::path& folder);

/// Writes tokenizer_config.json for a model of at most `length` tokens; without it, transformers has to guess whether
/// text is lower-cased. An existing file is kept, but is made to allow no more tokens.
void write_tokenizer_config(const std::filesystem::path& folder, const WordpieceOptions& options, int64_t length);

}  // namespace bochner
