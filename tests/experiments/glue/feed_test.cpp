// What batches of GLUE's texts contain.
#include <gtest/gtest.h>

#include "experiments/glue/problem.h"

namespace bochner {
namespace {

/// Three pairs of sentences: (a b, c), (a, b c d a b), (x, y).
std::shared_ptr<const glue::Encoded> three_pairs() {
  glue::Table table;
  table.name = "sts-b train";
  table.sentences = 2;
  for (const char* sentence : {"a b", "c", "a", "b c d a b", "x", "y"}) table.add_sentence(sentence);
  table.scores = {1, 2.5F, 5};
  const Wordpiece tokenizer(read_vocabulary(BOCHNER_SOURCE_DIR "/tests/golden/wordpiece/vocab.txt"));
  return std::make_shared<const glue::Encoded>(glue::encode(table, tokenizer, 16, [](const std::string&) {}));
}

TEST(GlueFeed, GivesTypesMaskAndScores) {
  const auto encoded = three_pairs();
  glue::TextFeed feed(encoded, {.batch_size = 3, .shuffle = false});
  const Examples batch = feed.next();
  EXPECT_EQ(batch.at("values").to_vector<float>(), (std::vector<float>{1, 2.5F, 5}));
  ASSERT_EQ(batch.at("ids").shape(), (Shape{3, 9}));
  const std::vector<int64_t> types = batch.at("types").to_vector<int64_t>();
  // [CLS] a b [SEP] c [SEP] | [CLS] a [SEP] b c d a b [SEP] | [CLS] x [SEP] y [SEP]
  EXPECT_EQ(types, (std::vector<int64_t>{0, 0, 0, 0, 1, 1, 0, 0, 0,  //
                                         0, 0, 0, 1, 1, 1, 1, 1, 1,  //
                                         0, 0, 0, 1, 1, 0, 0, 0, 0}));
  const Tensor mask = batch.at("mask").cast(DType::i64);
  EXPECT_EQ(mask.to_vector<int64_t>(), (std::vector<int64_t>{1, 1, 1, 1, 1, 1, 0, 0, 0,  //
                                                             1, 1, 1, 1, 1, 1, 1, 1, 1,  //
                                                             1, 1, 1, 1, 1, 0, 0, 0, 0}));
  glue::TextFeed shuffled(encoded, {.batch_size = 2, .shuffle = true, .seed = 3});
  std::vector<std::vector<int64_t>> numbers;
  for (int i = 0; i < 5; ++i) numbers.push_back(shuffled.next().numbers);
  shuffled.go_to(3);
  EXPECT_EQ(shuffled.next().numbers, numbers[3]);
}

TEST(GlueFeed, TypesAreThoseOfTheRowWhateverTheOrder) {
  glue::TextFeed feed(three_pairs(), {.batch_size = 1, .shuffle = false});
  feed.next();
  EXPECT_EQ(feed.next().at("types").to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0, 1, 1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace bochner
