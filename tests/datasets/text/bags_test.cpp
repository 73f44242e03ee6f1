#include "datasets/text/bags.h"

#include <gtest/gtest.h>

#include "engine/random.h"

namespace bochner::text {
namespace {

/// Texts of words; class 1 if they contain `good`, in any spelling.
ByteTexts reviews(int64_t count, uint64_t seed) {
  Generator random(seed);
  const auto texts = std::make_shared<Texts>();
  std::vector<int64_t> which;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    const bool good = random.below(2) == 1;
    std::string text;
    for (int word = 0; word < 20; ++word) text += fmt::format("w{} ", random.below(50));
    text += good ? (random.below(2) == 1 ? "GOOD!" : "good.") : "doog";
    texts->add(text);
    which.push_back(i);
    labels.push_back(good ? 1 : 0);
  }
  return {"reviews", texts, which, labels};
}

/// Pairs; class 1 if both contain the same one of many rare words.
ByteTexts pairs(int64_t count, uint64_t seed) {
  Generator random(seed);
  const auto texts = std::make_shared<Texts>();
  std::vector<int64_t> which;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    const bool same = random.below(2) == 1;
    const int64_t name = random.below(300);
    for (const int64_t other : {int64_t{0}, same ? int64_t{0} : 1 + random.below(200)}) {
      texts->add(fmt::format("the film of {} the {}", (name + other) % 300 + 1000, random.below(3)));
    }
    which.insert(which.end(), {2 * i, 2 * i + 1});
    labels.push_back(same ? 1 : 0);
  }
  return {"pairs", texts, which, labels, 2};
}

TEST(Bags, WordsTellWhatAnagramsOfBytesDoNot) {
  const ByteTexts train = reviews(1000, 1);
  const ByteTexts test = reviews(500, 2);
  EXPECT_GT(bag_accuracy(train, test, Bag::words, 4000), 0.99);
  EXPECT_LT(bag_accuracy(train, test, Bag::words, 40), 0.6) << "what is cut off does not count";
  EXPECT_EQ(bag_accuracy(train, test, Bag::words, 4000), bag_accuracy(train, test, Bag::words, 4000));
  EXPECT_LT(bag_accuracy(train, test, Bag::bytes, 4000), 0.9);
}

/// The given number of copies of each text, with its class.
ByteTexts copies(const std::vector<std::tuple<int64_t, std::string, int32_t>>& given) {
  const auto texts = std::make_shared<Texts>();
  std::vector<int64_t> which;
  std::vector<int32_t> labels;
  for (const auto& [count, text, label] : given) {
    for (int64_t i = 0; i < count; ++i) {
      which.push_back(std::ssize(which));
      texts->add(text);
      labels.push_back(label);
    }
  }
  return {"copies", texts, which, labels};
}

// In training texts `bad` is as rare as `good`, so two of it outweigh one. Nearly all test texts contain it, which must
// not reduce its weight.
TEST(Bags, HowRareAWordIsFollowsFromTrainingTextsAlone) {
  const ByteTexts train = copies({{20, "good", 1}, {20, "bad", 0}});
  const ByteTexts test = copies({{1, "good bad bad", 0}, {1000, "bad", 0}});
  EXPECT_EQ(bag_accuracy(train, test, Bag::words, 4000), 1);
}

TEST(Bags, WordsOfPairsAreCompared) {
  const ByteTexts train = pairs(2000, 1);
  const ByteTexts test = pairs(500, 2);
  EXPECT_GT(bag_accuracy(train, test, Bag::words, 4000), 0.95);
}

}  // namespace
}  // namespace bochner::text
