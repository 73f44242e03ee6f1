// BERT's WordPiece: text to ids, equal to Hugging Face's tokenizers 0.20.3 for every text, and many times as fast.
//
//   const Wordpiece tokenizer(read_pretrained_vocabulary("bert-base-uncased"));
//   Wordpiece::Encoder encoder(tokenizer);              // one for each thread
//   const Encoding one = encoder.encode("How are you?", {.longest = 128});
//   const Encoding two = encoder.encode_pair("How are you?", "Fine.", {.longest = 128});
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/tokenizers/bert_characters.h"
#include "datasets/tokenizers/piece_trie.h"
#include "datasets/tokenizers/vocabulary.h"

namespace bochner {

struct EncodeOptions {
  bool special = true;  ///< [CLS] A [SEP], or [CLS] A [SEP] B [SEP]
  int64_t longest = 0;  ///< the most ids, including those of special tokens; 0: no limit
};

/// The input of a model for one text or a pair.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;  ///< 0 for [CLS] A [SEP], 1 for B [SEP]
};

/// A vocabulary prepared for encoding. It never changes, so threads may share it.
class Wordpiece {
 public:
  class Encoder;

  /// With `special_in_text`, `[MASK]` in a text is read as that token, as in Hugging Face's tokenizers; otherwise it is
  /// a bracket, a word and a bracket.
  explicit Wordpiece(WordpieceVocabulary vocabulary, bool special_in_text = true);

  const WordpieceVocabulary& vocabulary() const { return vocabulary_; }
  /// One more than the largest id.
  int64_t size() const { return size_; }
  /// The piece or the added token of an id; an Error if there is none.
  std::string_view token(int64_t id) const;

 private:
  friend class Encoder;

  /// The kinds of bytes in a text.
  enum class Byte : uint8_t { letter, drop, space, alone, other, token };

  /// The longest added token that `text` begins with; null if there is none.
  const AddedToken* added_at(std::string_view text) const;

  WordpieceVocabulary vocabulary_;
  BertCharacters characters_;
  std::unique_ptr<PieceTrie> trie_;
  std::array<Byte, 256> bytes_{};    ///< token: an added token may begin here
  std::array<Byte, 256> plain_{};    ///< the kind of byte where no token begins
  std::array<char, 256> letters_{};  ///< what an ASCII letter becomes
  std::vector<AddedToken> added_;    ///< those that are looked for, long ones first
  int64_t size_ = 0;
};

/// The message about bytes that were not UTF-8: `2 places were not UTF-8; each was read as U+FFFD`.
std::string told_of_replaced(int64_t count);

/// Turns text into ids. It remembers the pieces of the words that it has seen, so each thread needs its own.
class Wordpiece::Encoder {
 public:
  explicit Encoder(const Wordpiece& tokenizer);

  /// Appends the ids of a text, without [CLS] and [SEP]. Bytes that are not UTF-8 are read as U+FFFD and counted.
  void append(std::string_view text, std::vector<int32_t>& ids);

  /// If there are more than options.longest ids, the end of the text is cut off. In a pair, the longer text is cut
  /// until both are equally long, and then both in turn, where the second keeps the odd id ("longest first").
  Encoding encode(std::string_view text, const EncodeOptions& options = {});
  Encoding encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options = {});

  /// The words of a text before they are cut into pieces: normalised, and split at white space and punctuation. A word
  /// that is too long to be known may lack its end.
  std::vector<std::string> words(std::string_view text);

  /// How often bytes were not UTF-8, in all texts so far.
  int64_t replaced() const { return replaced_; }

 private:
  /// The pieces of a short word. Its bytes are padded with zeros, and the last one is its length.
  struct Known {
    uint64_t low = 0, high = 0;
    int32_t count = 0;
    std::array<int32_t, 3> ids{};
  };

  template <class Take>
  void scan(std::string_view text, const Take& take);
  template <class Take>
  void character(uint32_t code, std::string_view itself, const Take& take);
  template <class Take>
  void step(const BertCharacters::Step& step, const Take& take);
  template <class Take>
  void end_word(const Take& take);
  void put(std::string_view bytes);
  void put_mark(std::string_view bytes, uint8_t combining_class);
  void append_word(std::string_view word, std::vector<int32_t>& ids);
  void append_pieces(std::string_view word, std::vector<int32_t>& ids) const;

  const Wordpiece& tokenizer_;
  std::vector<char> word_;  ///< the word so far, with room for one of the longest and for reading 16 bytes anywhere
  size_t size_ = 0;         ///< of it; nothing is put behind capacity_
  size_t capacity_ = 0;
  std::vector<std::pair<uint8_t, size_t>> marks_;  ///< the marks at its end: combining class and place
  std::vector<Known> known_;
  int64_t replaced_ = 0;
};

/// How many ids of each text are kept when a pair of `first` and `second` ids may have at most `longest`.
std::pair<int64_t, int64_t> truncated_lengths(int64_t first, int64_t second, int64_t longest);

}  // namespace bochner
