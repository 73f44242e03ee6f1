// The vocabulary of a WordPiece tokenizer, and the options that come with it, from the files that BERT models are
// published with. Files are not trusted: sizes are bounded, and an Error names file, line or token.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace bochner {

/// The options for text before it is cut into pieces, and for the form of pieces. The defaults are those of
/// bert-base-uncased.
struct WordpieceOptions {
  bool lower_case = true;
  std::optional<bool> strip_accents;  ///< not set: as lower_case
  bool clean_text = true;             ///< control characters are dropped
  bool split_chinese = true;          ///< each Chinese character is a word
  int32_t longest_word = 100;         ///< characters; a longer one is [UNK]
  std::string prefix = "##";          ///< of pieces that continue a word
};

/// A token that is found in text as a whole, before any other step.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = true;  ///< not found if special tokens in text are switched off
};

struct WordpieceVocabulary {
  std::string file;                 ///< for messages
  std::vector<std::string> pieces;  ///< by id; empty where an id has none
  std::vector<AddedToken> added;
  int32_t unknown = 0, begin = 0, end = 0, padding = 0, mask = 0;  ///< ids of [UNK], [CLS], [SEP], [PAD], [MASK]
  WordpieceOptions options;
};

/// `vocab.txt`, which may be packed with gzip: a token a line, its id the number of the line from 0. It must hold
/// [PAD], [UNK], [CLS], [SEP] and [MASK], each token once, and be valid UTF-8, before which there may be a byte order
/// mark.
WordpieceVocabulary read_vocabulary(const std::filesystem::path& path, const WordpieceOptions& options = {});

/// A folder in the form of published models: `tokenizer.json` or, if there is none, `vocab.txt`. For lower-casing,
/// accents and Chinese characters, `tokenizer_config.json` takes precedence over tokenizer.json, unless its
/// tokenizer_class is one for all kinds, such as PreTrainedTokenizerFast. The five special tokens are named by it, by
/// `special_tokens_map.json` or by their common names. An Error names a token that a file adds without being in
/// tokenizer.json, and a post_processor that puts other ids than those of [CLS] and [SEP] around texts.
WordpieceVocabulary read_pretrained_vocabulary(const std::filesystem::path& folder);

/// tokenizer_config.json for a model of at most `length` tokens, without which transformers has to guess whether text
/// is made lower-case. One that is there already stays, but does not allow more tokens.
void write_tokenizer_config(const std::filesystem::path& folder, const WordpieceOptions& options, int64_t length);

}  // namespace bochner
