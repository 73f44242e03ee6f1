#include "datasets/baselines.h"

#include <gtest/gtest.h>

#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;

/// Examples of at most one token; id 0 stands for an empty one.
PackedDataset<uint8_t> examples(std::initializer_list<std::pair<int, int>> tokens_and_labels) {
  std::vector<uint8_t> tokens;
  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> labels;
  for (const auto& [token, label] : tokens_and_labels) {
    if (token != 0) tokens.push_back(static_cast<uint8_t>(token));
    offsets.push_back(static_cast<int64_t>(tokens.size()));
    labels.push_back(label);
  }
  return {"toy", tokens, offsets, labels};
}

TEST(Baselines, TheMostFrequentOfEqualCountsIsTheSmallerClass) {
  using Labels = std::vector<int64_t>;
  EXPECT_EQ(most_frequent({2, 0, 2}), 2);
  EXPECT_EQ(most_frequent({7, 3, 3, 7}), 3);
  EXPECT_EQ(message_of([] { most_frequent({}); }), "baseline: there are no labels");
  EXPECT_EQ(labels_of(examples({{1, 7}, {0, 3}, {1, 7}})), (Labels{7, 3, 7}));
}

TEST(Baselines, FirstTokenDecidesAndTheUnknownGetsTheMajority) {
  // token 1 -> class 0 (2 of 3), token 2 -> class 5, token 3 -> class 4; all together -> 5
  const auto train = examples({{1, 0}, {1, 0}, {1, 5}, {2, 5}, {2, 5}, {3, 4}});
  EXPECT_EQ(first_token_accuracy(train, train), 5.0 / 6);
  EXPECT_EQ(most_frequent(labels_of(train)), 5);
  EXPECT_EQ(first_token_accuracy(train, examples({{9, 5}})), 1);
  EXPECT_EQ(first_token_accuracy(train, examples({{0, 5}})), 1);
  EXPECT_EQ(first_token_accuracy(train, examples({{3, 4}, {3, 5}})), 0.5);
}

TEST(Baselines, NeedExamples) {
  const auto some = examples({{1, 0}});
  const auto none = examples({});
  EXPECT_EQ(message_of([&] { first_token_accuracy(none, some); }), "baseline: toy has no examples");
  EXPECT_EQ(message_of([&] { first_token_accuracy(some, none); }), "baseline: toy has no examples");
}

}  // namespace
}  // namespace bochner
