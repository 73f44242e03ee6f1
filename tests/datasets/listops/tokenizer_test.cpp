#include "datasets/listops/tokenizer.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/message_of.h"

namespace bochner::listops {
namespace {

using test::message_of;
using Ids = std::vector<uint8_t>;

constexpr const char* kText = "( ( ( [MAX 4 ) ( ( ( [SM 7 ) 5 ) ] ) ) ] )";
constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

Ids ids_of(std::string_view text, Tokenisation tokenisation, int64_t max_length = kAll) {
  Ids ids;
  encode(text, tokenisation, max_length, ids);
  return ids;
}

TEST(ListOpsTokens, IdsAreTheDocumentedOnes) {
  EXPECT_EQ(ids_of("0", Tokenisation::fixed), Ids{1});
  EXPECT_EQ(ids_of("9", Tokenisation::released), Ids{10});
  EXPECT_EQ(ids_of("( ( [MAX 0 ) ] )", Tokenisation::fixed), (Ids{11, 1, 15}));
  EXPECT_EQ(ids_of("( ( [MED 1 ) ] )", Tokenisation::fixed), (Ids{12, 2, 15}));
  EXPECT_EQ(ids_of("( ( [MIN 2 ) ] )", Tokenisation::fixed), (Ids{13, 3, 15}));
  EXPECT_EQ(ids_of("( ( [SM 3 ) ] )", Tokenisation::fixed), (Ids{14, 4, 15}));
  EXPECT_EQ(ids_of(kText, Tokenisation::fixed), (Ids{11, 5, 14, 8, 6, 15, 15}));
  EXPECT_EQ(ids_of(kText, Tokenisation::released), (Ids{11, 5, 14, 8, 6}));
}

TEST(ListOpsTokens, VocabularyHoldsEachTokenAndPadding) {
  EXPECT_EQ(vocabulary_size(Tokenisation::fixed), 16);
  EXPECT_EQ(vocabulary_size(Tokenisation::released), 15);
  for (const Tokenisation tokenisation : {Tokenisation::fixed, Tokenisation::released}) {
    for (int64_t id = 1; id < vocabulary_size(tokenisation); ++id) {
      const std::string name(token(id, tokenisation));
      const std::string text = tokenisation == Tokenisation::released && id > 10 ? "[" + name : name;
      EXPECT_EQ(ids_of(text, tokenisation), Ids{static_cast<uint8_t>(id)}) << name;
    }
    EXPECT_EQ(token(0, tokenisation), "<pad>");
    EXPECT_THROW(token(-1, tokenisation), Error);
    EXPECT_THROW(token(vocabulary_size(tokenisation), tokenisation), Error);
  }
}

// Without brackets, two expressions of different values become one sequence.
TEST(ListOpsTokens, ReleasedTokenisationIsAmbiguousAndFixedIsNot) {
  const char* inside = "( ( ( [MAX 4 ) ( ( ( [SM 7 ) 8 ) ] ) ) ] )";   // MAX(4, SM(7, 8)) = 5
  const char* outside = "( ( ( ( [MAX 4 ) ( ( [SM 7 ) ] ) ) 8 ) ] )";  // MAX(4, SM(7), 8) = 8
  EXPECT_NE(evaluate(inside), evaluate(outside));
  EXPECT_EQ(ids_of(inside, Tokenisation::released), ids_of(outside, Tokenisation::released));
  EXPECT_NE(ids_of(inside, Tokenisation::fixed), ids_of(outside, Tokenisation::fixed));
}

TEST(ListOpsTokens, TruncationKeepsTheFirstTokens) {
  const Ids all = ids_of(kText, Tokenisation::fixed);
  for (size_t length = 0; length <= all.size() + 1; ++length) {
    const Ids some(all.begin(), all.begin() + static_cast<ptrdiff_t>(std::min(length, all.size())));
    EXPECT_EQ(ids_of(kText, Tokenisation::fixed, static_cast<int64_t>(length)), some);
  }
}

TEST(ListOpsTokens, EncodeAppends) {
  Ids ids = {7};
  encode("3", Tokenisation::fixed, 1, ids);
  EXPECT_EQ(ids, (Ids{7, 4}));
}

TEST(ListOpsTokens, WhatIsNoTokenIsRefusedWithItsPlaceAlsoBeyondTheEnd) {
  const auto character = [](const char* text) {
    Ids ids;
    return message_of([&] { encode(text, Tokenisation::fixed, 1, ids, {"f", 2, 1}); });
  };
  EXPECT_EQ(character(""), "f: row 2 column 1: character 1: there is no expression here");
  EXPECT_EQ(character("1 2 x"), "f: row 2 column 1: character 5: 'x' begins no token of ListOps");
  EXPECT_EQ(character("1 [MUX 2"), "f: row 2 column 1: character 3: '[MUX 2' begins no operator of ListOps");
  EXPECT_EQ(character("1 [MAXI"), "f: row 2 column 1: character 7: 'I' should be a blank or the end of the text");
  EXPECT_EQ(character("12"), "f: row 2 column 1: character 2: '2' should be a blank or the end of the text");
  EXPECT_EQ(character("1  2"), "f: row 2 column 1: character 3: ' 2' begins no token of ListOps");
  EXPECT_EQ(character("1 "), "f: row 2 column 1: character 2: a blank at the end of the text");
  EXPECT_EQ(character("\x80"), "f: row 2 column 1: character 1: '\\x80' begins no token of ListOps");
}

}  // namespace
}  // namespace bochner::listops
