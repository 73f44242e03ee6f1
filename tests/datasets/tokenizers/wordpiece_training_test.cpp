// Vocabularies made from text, compared with a simple version that counts everything again for each piece.
#include "datasets/tokenizers/wordpiece_training.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/sanitizer.h"
#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using Tokens = std::vector<std::string>;

/// For words of ASCII letters only, keeping all characters.
Tokens plain_version(const std::map<std::string, int>& words, size_t size, int least) {
  std::map<std::string, Tokens> parts;
  std::map<std::string, int> first;
  std::map<std::string, int> inner;
  for (const auto& [word, count] : words) {
    for (size_t i = 0; i < word.size(); ++i) {
      const std::string c(1, word[i]);
      first[c] = 1;
      if (i > 0) inner["##" + c] = 1;
      parts[word].push_back(i > 0 ? "##" + c : c);
    }
  }
  Tokens tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (const auto& [c, one] : first) tokens.push_back(c);
  for (const auto& [c, one] : inner) tokens.push_back(c);
  while (tokens.size() < size) {
    std::map<std::pair<std::string, std::string>, int> pairs;
    for (const auto& [word, pieces] : parts) {
      for (size_t i = 1; i < pieces.size(); ++i) pairs[{pieces[i - 1], pieces[i]}] += words.at(word);
    }
    auto best = pairs.end();
    for (auto at = pairs.begin(); at != pairs.end(); ++at) {
      if (best == pairs.end() || at->second > best->second) best = at;
    }
    if (best == pairs.end() || best->second < least) break;
    const std::string joined = best->first.first + best->first.second.substr(2);
    if (std::find(tokens.begin(), tokens.end(), joined) == tokens.end()) tokens.push_back(joined);
    for (auto& [word, pieces] : parts) {
      for (size_t i = 0; i + 1 < pieces.size(); ++i) {
        if (pieces[i] == best->first.first && pieces[i + 1] == best->first.second) {
          pieces[i] = joined;
          pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
      }
    }
  }
  return tokens;
}

TEST(WordpieceTraining, EqualsThePlainVersion) {
  uint32_t state = 1;
  const auto draw = [&](uint32_t below) {
    state = state * 1664525U + 1013904223U;
    return (state >> 16U) % below;
  };
  for (int round = 0; round < (kAddressSanitizer ? 3 : 30); ++round) {
    std::map<std::string, int> words;
    std::string text;
    for (uint32_t i = 0; i < 60; ++i) {
      std::string word;
      for (uint32_t length = 1 + draw(7); length > 0; --length) word += static_cast<char>('a' + draw(3));
      const uint32_t count = 1 + draw(4);
      words[word] += static_cast<int>(count);
      for (uint32_t k = 0; k < count; ++k) text += word + " ";
    }
    const int64_t size = 12 + draw(60);
    WordpieceTraining training({.size = size, .least_count = 1 + round % 3, .characters = 1000, .text = {}});
    training.add(text);
    EXPECT_EQ(training.tokens(), plain_version(words, static_cast<size_t>(size), 1 + round % 3)) << "round " << round;
  }
}

TEST(WordpieceTraining, TiesGoByBytes) {
  WordpieceTraining training({.size = 12, .least_count = 2, .characters = 1000, .text = {}});
  training.add("zy zy ba ba");
  EXPECT_EQ(training.tokens(),
            (Tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "y", "z", "##a", "##y", "ba"}));
}

TEST(WordpieceTraining, WhatItMakesReadsItsText) {
  const test::TemporaryFolder folder;
  const std::string text =
      "Straße, Ärger und Öl: 日本 한글! naïve caféteria cafés un\xFF"
      "der";
  WordpieceTraining training({.size = 200, .least_count = 1, .characters = 1000, .text = {}});
  training.add(text);
  EXPECT_EQ(training.replaced(), 1);
  EXPECT_EQ(told_of_replaced(1), "1 place was not UTF-8; it was read as U+FFFD");
  EXPECT_EQ(told_of_replaced(2), "2 places were not UTF-8; each was read as U+FFFD");
  write_vocabulary(folder / "vocab.txt", training.tokens());
  const Wordpiece tokenizer(read_vocabulary(folder / "vocab.txt"));
  Wordpiece::Encoder encoder(tokenizer);
  std::string joined;
  for (const int32_t id : encoder.encode(text, {.special = false, .longest = 0}).ids)
    joined += std::string(tokenizer.token(id)) + " ";
  EXPECT_EQ(joined,
            "straße , arger und ol : 日 本 \u1112\u1161\u11AB\u1100\u1173\u11AF ! naive cafeteria cafes under ");
}

TEST(WordpieceTraining, RareCharactersAndSmallSizes) {
  WordpieceTraining few({.size = 30, .least_count = 1, .characters = 2, .text = {}});
  few.add("ab ab ab abc");
  EXPECT_EQ(few.tokens(), (Tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b", "ab"}));
  WordpieceTraining small({.size = 8, .least_count = 1, .characters = 100, .text = {}});
  small.add("abcdef");
  EXPECT_NE(test::message_of([&] { small.tokens(); }).find("8 tokens has no room for the 16 special"),
            std::string::npos);
  EXPECT_NE(test::message_of([] {
              WordpieceTraining({.size = 3, .least_count = 1, .characters = 1, .text = {}});
            }).find("3 tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace bochner
