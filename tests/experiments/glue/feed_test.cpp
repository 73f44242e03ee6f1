// What batches of GLUE's texts contain.
#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/glue/problem.h"
#include "tests/files.h"

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

TEST(GlueTexts, HoldSpecialTokensOnlyIfAskedTo) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "glue/RTE");
  const std::string row = "index\tsentence1\tsentence2\tlabel\n0\ta [MASK] b\tc\tentailment\n";
  for (const char* name : {"train.tsv", "dev.tsv"}) test::put(folder / ("glue/RTE/" + std::string(name)), row);
  std::filesystem::create_directories(folder / "model");
  std::filesystem::copy(BOCHNER_SOURCE_DIR "/tests/golden/wordpiece/vocab.txt", folder / "model/vocab.txt");
  const auto config = std::make_shared<glue::TextConfig>();
  config->pretrained = (folder / "model").string();
  config->partial.taken = true;
  RunOptions run;
  run.data = folder.path().string();
  const auto masks = [&](bool special_in_text) {
    config->special_in_text = special_in_text;
    const std::vector<glue::GlueTask> tasks = glue::glue_tasks(config);
    const auto rte = std::ranges::find(tasks, "rte", &glue::GlueTask::name);
    const auto ignored = [](const std::string&) {};
    const glue::Texts texts = rte->load(run, {ignored, ignored});
    const Examples batch = glue::TextFeed(std::make_shared<const glue::Encoded>(texts.train), {.batch_size = 1}).next();
    const std::vector<int64_t> ids = batch.at("ids").to_vector<int64_t>();
    return std::ranges::count(ids, texts.tokenizer->vocabulary().mask);
  };
  EXPECT_EQ(masks(true), 1);
  EXPECT_EQ(masks(false), 0);
}

}  // namespace
}  // namespace bochner
