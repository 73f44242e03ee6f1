// Tables of GLUE as ids.
#include "datasets/glue/encode.h"

#include <gtest/gtest.h>

#include "engine/parallel.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

const Wordpiece& tokenizer() {
  static const Wordpiece small(read_vocabulary(BOCHNER_SOURCE_DIR "/tests/golden/wordpiece/vocab.txt"));
  return small;
}

std::vector<int64_t> ids_of(const glue::Encoded& encoded, int64_t row) {
  std::vector<int64_t> ids(static_cast<size_t>(encoded.tokens->length(row)));
  encoded.tokens->copy_tokens(row, 0, ids);
  return ids;
}

glue::Table table_of(int sentences, const std::vector<std::string>& text) {
  glue::Table table;
  table.name = "rte train";
  table.sentences = sentences;
  for (const std::string& sentence : text) table.add_sentence(sentence);
  for (int64_t row = 0; row < table.size(); ++row) table.labels.push_back(static_cast<int32_t>(row % 2));
  return table;
}

TEST(GlueEncoding, RowsAreThoseOfTheTokenizer) {
  std::vector<std::string> text;
  for (int i = 0; i < 5000; ++i) {  // more than one piece
    text.push_back(fmt::format("the cat {}", i));
    text.push_back(i % 3 == 0 ? "" : fmt::format("a {} dog , and the cats", i % 7));
  }
  const glue::Table table = table_of(2, text);
  for (const int count : {1, 2}) {
    set_threads(count);
    const glue::Encoded encoded = glue::encode(table, tokenizer(), 64, [](const std::string&) {});
    ASSERT_EQ(encoded.tokens->size(), 5000);
    Wordpiece::Encoder encoder(tokenizer());
    for (int64_t row = 0; row < 5000; ++row) {
      const auto i = static_cast<size_t>(row);
      const Encoding expected = encoder.encode_pair(text[2 * i], text[2 * i + 1], {.longest = 64});
      ASSERT_EQ(ids_of(encoded, row), std::vector<int64_t>(expected.ids.begin(), expected.ids.end())) << row;
      for (size_t t = 0; t < expected.types.size(); ++t) {
        ASSERT_EQ(expected.types[t], static_cast<int32_t>(t) < encoded.first[i] ? 0 : 1) << row;
      }
      ASSERT_EQ(encoded.tokens->label(row), row % 2);
    }
    EXPECT_EQ(encoded.cut, 0);
  }
  set_threads(0);
}

TEST(GlueEncoding, TheLongerSentenceIsCutFirst) {
  std::vector<std::string> said;
  const auto say = [&](const std::string& line) { said.push_back(line); };
  const glue::Table table = table_of(2, {"a a a a a a", "a a", "a", "a"});
  const glue::Encoded encoded = glue::encode(table, tokenizer(), 8, say);
  EXPECT_EQ(encoded.tokens->length(0), 8);
  EXPECT_EQ(encoded.first, (std::vector<int32_t>{5, 3}));  // [CLS] a a a [SEP] | a a [SEP]
  EXPECT_EQ(encoded.cut, 1);
  EXPECT_EQ(said, std::vector<std::string>{"rte train: 1 of 2 rows have more than 8 tokens and were cut"});
  EXPECT_NE(test::message_of([&] { glue::encode(table, tokenizer(), 2, say); }).find("choose at least 3"),
            std::string::npos);
}

TEST(GlueEncoding, BytesThatAreNotUtf8AreTold) {
  std::vector<std::string> said;
  const glue::Table table = table_of(1, {"a \xff a \xfe a a", "a"});
  const glue::Encoded encoded =
      glue::encode(table, tokenizer(), 4, [&](const std::string& line) { said.push_back(line); });
  EXPECT_EQ(encoded.first, (std::vector<int32_t>{4, 3}));
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[1], "rte train: 2 places were not UTF-8; each was read as U+FFFD");
}

}  // namespace
}  // namespace bochner
