// Trains a WordPiece vocabulary from text, for users with a language of their own.
//
//   WordpieceTraining training({.size = 30000});
//   training.add("Any text.");
//   write_vocabulary("vocab.txt", training.tokens());
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "datasets/tokenizers/wordpiece.h"

namespace bochner {

struct WordpieceTrainingOptions {
  int64_t size = 30522;       ///< tokens at most, including the five special ones and single characters
  int64_t least_count = 2;    ///< pairs of pieces that are less frequent are not joined
  int64_t characters = 1000;  ///< distinct ones at most; words with others are left out
  WordpieceOptions text;      ///< how text becomes words
};

/// Counts words, and joins the most frequent pair of neighbouring pieces again and again, as Hugging Face's
/// WordPieceTrainer does. Pairs of equal count are taken in byte order of the left piece, then of the right one (`##`
/// counts). So the vocabulary depends only on the counts of words, not on the order of texts.
class WordpieceTraining {
 public:
  explicit WordpieceTraining(const WordpieceTrainingOptions& options);
  WordpieceTraining(const WordpieceTraining&) = delete;  // a member refers to another
  WordpieceTraining& operator=(const WordpieceTraining&) = delete;

  void add(std::string_view text);
  /// How many words were added, and how often bytes were not UTF-8.
  int64_t words() const { return count_; }
  int64_t replaced() const { return encoder_.replaced(); }

  /// [PAD], [UNK], [CLS], [SEP], [MASK]; the characters that begin words, then those that continue them, both in the
  /// order of bytes; the joined pieces in the order in which they were joined. An Error if `size` leaves no room for
  /// the characters.
  std::vector<std::string> tokens() const;

 private:
  WordpieceTrainingOptions options_;
  Wordpiece splitter_;
  Wordpiece::Encoder encoder_;
  std::unordered_map<std::string, int64_t> counts_;
  int64_t count_ = 0;
};

/// The text of a vocab.txt: one token per line.
std::string vocabulary_text(const std::vector<std::string>& tokens);
void write_vocabulary(const std::filesystem::path& path, const std::vector<std::string>& tokens);

}  // namespace bochner
