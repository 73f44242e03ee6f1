#include "datasets/sparsity/generator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "datasets/sparsity/sparsity.h"
#include "engine/io/sha256.h"
#include "engine/parallel.h"
#include "tests/message_of.h"

namespace bochner::sparsity {
namespace {

using test::message_of;

GeneratorOptions small(double relevant) {
  return {.relevant = relevant, .length = 40, .train = 90, .valid = 20, .test = 7, .seed = 5};
}

/// The sums after each position.
std::vector<int> prefix_sums(std::span<const uint8_t> tokens) {
  std::vector<int> sums;
  int sum = 0;
  for (const uint8_t token : tokens) sums.push_back(sum += value_of(token) * relevance_of(token));
  return sums;
}

TEST(Sparsity, ATokenIsAPair) {
  int id = 1;
  for (const int a : {0, 1}) {
    for (const int v : {-1, 1}) {
      const uint8_t token = token_of(v, a);
      EXPECT_EQ(token, id++);
      EXPECT_EQ(value_of(token), v);
      EXPECT_EQ(relevance_of(token), a);
    }
  }
  const std::vector<double> many_hot = codes().to_vector<double>();
  EXPECT_EQ(many_hot, (std::vector<double>{0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1}));
}

TEST(Sparsity, NoPrefixSumLeavesTheBoundAndTheClassIsTheLastOne) {
  GeneratorOptions options{.relevant = 0.9, .length = 200};
  Generator generator(1);
  std::vector<uint8_t> tokens(200);
  int lowest = 0;
  int highest = 0;
  for (int i = 0; i < 500; ++i) {
    const int label = draw(options, generator, tokens);
    const std::vector<int> sums = prefix_sums(tokens);
    ASSERT_EQ(label, sums.back() + kBound);
    for (const int sum : sums) {
      ASSERT_LE(std::abs(sum), kBound);
      lowest = std::min(lowest, sum);
      highest = std::max(highest, sum);
    }
  }
  EXPECT_EQ(lowest, -kBound);  // the bound is reached
  EXPECT_EQ(highest, kBound);
}

// Every outcome of the coins at five positions, each with its probability.
TEST(Sparsity, ClassProbabilitiesAreThoseOfAllCoins) {
  constexpr int kLength = 5;
  const GeneratorOptions options{.relevant = 0.3, .length = kLength};
  std::array<double, kClasses> expected{};
  for (int a = 0; a < 1 << kLength; ++a) {
    for (int v = 0; v < 1 << kLength; ++v) {
      double probability = std::pow(0.5, kLength);
      int sum = 0;
      for (int i = 0; i < kLength; ++i) {
        const bool counts = ((a >> i) & 1) != 0;
        probability *= counts ? options.relevant : 1 - options.relevant;
        if (!counts) continue;
        int step = ((v >> i) & 1) != 0 ? 1 : -1;
        if (std::abs(sum + step) > kBound) step = -step;
        sum += step;
      }
      expected[static_cast<size_t>(sum + kBound)] += probability;
    }
  }
  const auto found = class_probabilities(options);
  for (size_t c = 0; c < expected.size(); ++c) EXPECT_NEAR(found[c], expected[c], 1e-14) << c;
  // Once the start is forgotten, the end values of the walk are half as frequent as the values between them.
  const auto settled = class_probabilities({.relevant = 0.5, .length = 2000});
  for (size_t c = 0; c < settled.size(); ++c) EXPECT_NEAR(settled[c], c == 0 || c == 8 ? 1.0 / 16 : 1.0 / 8, 1e-9);
}

TEST(Sparsity, DrawsFollowTheLaw) {
  for (const double relevant : {0.1, 0.5, 0.9}) {
    const GeneratorOptions options{.relevant = relevant, .length = 50};
    const auto probabilities = class_probabilities(options);
    Generator generator(7);
    constexpr int kDraws = 20000;
    std::array<double, kClasses> counts{};
    std::vector<uint8_t> tokens(50);
    double counting = 0;
    double ones = 0;
    double idle = 0;
    for (int i = 0; i < kDraws; ++i) {
      counts[static_cast<size_t>(draw(options, generator, tokens))] += 1;
      for (const uint8_t token : tokens) {
        counting += relevance_of(token);
        idle += 1 - relevance_of(token);
        ones += relevance_of(token) == 0 && value_of(token) == 1 ? 1 : 0;
      }
    }
    for (size_t c = 0; c < counts.size(); ++c) {
      const double sigma = std::sqrt(kDraws * probabilities[c] * (1 - probabilities[c]));
      EXPECT_NEAR(counts[c], kDraws * probabilities[c], 4 * sigma) << relevant << ", class " << c;
    }
    const double positions = kDraws * 50.0;
    EXPECT_NEAR(counting / positions, relevant, 4 * std::sqrt(relevant * (1 - relevant) / positions));
    EXPECT_NEAR(ones / idle, 0.5, 4 * std::sqrt(0.25 / idle));  // positions that do not count are fair
  }
}

TEST(Sparsity, ClassesAreBalancedInEachSet) {
  for (const double relevant : {0.1, 0.5, 0.9}) {
    const GeneratorOptions options = small(relevant);
    const TaskData data = load_task(options);
    EXPECT_EQ(data.task.classes, kClasses);
    EXPECT_EQ(data.task.vocabulary, 5);
    EXPECT_EQ(data.task.max_length, 40);
    for (const auto& [set, size] : {std::pair{data.train, 90}, std::pair{data.valid, 20}, std::pair{data.test, 7}}) {
      ASSERT_EQ(set->size(), size);
      for (int64_t i = 0; i < size; ++i) {
        EXPECT_EQ(set->label(i), i % kClasses);
        std::vector<int64_t> ids(static_cast<size_t>(set->length(i)));
        set->copy_tokens(i, 0, ids);
        const std::vector<uint8_t> tokens(ids.begin(), ids.end());
        EXPECT_EQ(prefix_sums(tokens).back() + kBound, set->label(i)) << set->name() << " " << i;
      }
    }
  }
}

TEST(Sparsity, DependsOnTheSeedNotOnThreads) {
  std::vector<std::vector<uint8_t>> all;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    all.push_back(generate(small(0.5)));
  }
  set_threads(0);
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
  GeneratorOptions other = small(0.5);
  other.seed = 6;
  EXPECT_NE(all[0], generate(other));
  // The same on every machine, and the same as a few lines of Python draw.
  Sha256 hash;
  hash.update(std::as_bytes(std::span(all[0])));
  EXPECT_EQ(hash.hex(), "36f2296d1c0d815ed504c3386d3411ec33c5aec9a0a209def875ceeed3574aef");
  // All sequences differ.
  std::set<std::string> rows;
  for (size_t i = 0; i < 117; ++i) rows.emplace(all[0].begin() + i * 40, all[0].begin() + (i + 1) * 40);
  EXPECT_EQ(rows.size(), 117U);
}

TEST(Sparsity, ImpossibleOptionsAreRefused) {
  const auto told = [](GeneratorOptions options) { return message_of([&] { generate(options); }); };
  for (const double share : {0.0, 1.0, -0.5, 1.5, std::nan("")}) {
    EXPECT_NE(told(small(share)).find("it must lie between 0 and 1"), std::string::npos) << told(small(share));
  }
  GeneratorOptions options = small(0.5);
  options.length = 0;
  EXPECT_NE(told(options).find("length 0 must be at least 1"), std::string::npos) << told(options);
  options.length = 3;
  EXPECT_NE(told(options).find("sequences of 3 have no sum of 4; take longer ones"), std::string::npos)
      << told(options);
  options = small(0.01);
  EXPECT_NE(told(options).find("take longer sequences, or a share farther from 0"), std::string::npos) << told(options);
  options = small(0.5);
  options.valid = 0;
  EXPECT_NE(told(options).find("a set of 0 sequences"), std::string::npos) << told(options);
  options.valid = int64_t{1} << 40;
  EXPECT_NE(told(options).find("at most 2^33 positions"), std::string::npos) << told(options);
}

}  // namespace
}  // namespace bochner::sparsity
