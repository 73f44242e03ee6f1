// Self-pretraining: a model learns to name hidden tokens of a task's texts, and the task's model starts with its trunk.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "experiments/learners/sequence/pretraining.h"
#include "tests/experiments/learner_problems.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using namespace test;  // NOLINT: the problems

/// Texts that repeat one token, so that each token tells what the others are.
std::shared_ptr<const Dataset> monotonous(int64_t examples, int sequences, uint64_t seed) {
  Generator generator(seed);
  std::vector<uint8_t> tokens;
  std::vector<int64_t> offsets = {0};
  for (int64_t i = 0; i < examples * sequences; ++i) {
    const auto token = static_cast<uint8_t>(1 + generator.below(kVocabulary - 1));
    tokens.insert(tokens.end(), static_cast<size_t>(5 + generator.below(4)), token);
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  const std::vector<int32_t> labels(static_cast<size_t>(examples), 0);
  return std::make_shared<PackedDataset<uint8_t>>("monotonous", tokens, offsets, labels, sequences);
}

TaskData monotonous_task(int sequences) {
  TaskData data = task_of(sequences);
  data.train = monotonous(64, sequences, 1);
  data.valid = monotonous(40, sequences, 2);
  data.test = monotonous(40, sequences, 3);
  return data;
}

EncoderOptions with_mask_token(EncoderOptions::Pooling pooling) {
  EncoderOptions options = encoder("performer");
  options.vocabulary = kVocabulary + 1;
  options.pooling = pooling;
  options.embedding_deviation = 0.5;
  return options;
}

class SelfPretraining : public testing::TestWithParam<std::tuple<int, EncoderOptions::Pooling>> {
 protected:
  int sequences() const { return std::get<0>(GetParam()); }
  EncoderOptions options() const { return with_mask_token(std::get<1>(GetParam())); }
};

TEST_P(SelfPretraining, NamesHiddenTokens) {
  const RunOptions run = options_of(16);
  Learner learner(run, adamw(1e-2), sequence::masked_tokens(run, options(), monotonous_task(sequences()), 0.3));
  const double before = metric(learner, "accuracy");
  for (int64_t step = 0; step < 150; ++step) learner.step(step);
  EXPECT_LT(before, 0.5);
  EXPECT_GT(metric(learner, "accuracy"), 0.9);
  const std::vector<Baseline> counted = learner.baselines();
  ASSERT_EQ(counted.size(), 1U);
  EXPECT_LT(metric(learner, "perplexity"), 0.5 * *find_metric(counted[0].test, "perplexity"));
}

TEST_P(SelfPretraining, GivesTheTasksModelItsWholeTrunk) {
  const RunOptions run = options_of(16);
  const TaskData data = task_of(sequences());
  const TensorMap pretrained = sequence::masked_tokens(run, options(), data, 0.15).model->state();
  const TensorMap model = sequence::classification(run, options(), data, judged_by_accuracy()).model->state();
  for (const auto& [name, tensor] : model) {
    if (name.starts_with("classifier.")) continue;
    ASSERT_TRUE(pretrained.contains(name)) << name;
    EXPECT_EQ(pretrained.at(name).shape(), tensor.shape()) << name;
  }
  for (const auto& [name, tensor] : pretrained) {
    EXPECT_TRUE(name.starts_with("masked.") || model.contains(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(TextsAndPairs, SelfPretraining,
                         testing::Combine(testing::Values(1, 2), testing::Values(EncoderOptions::Pooling::mean,
                                                                                 EncoderOptions::Pooling::cls)));

TEST(SelfPretrainingOptions, NeedATokenThatHidesOthers) {
  EncoderOptions options = with_mask_token(EncoderOptions::Pooling::mean);
  options.vocabulary = kVocabulary;
  EXPECT_THROW(sequence::masked_tokens(options_of(4), options, task_of(1), 0.15), Error);
}

// A model sees the first 8 tokens of four training texts, ones; 92 twos follow in each. All test texts are ones.
TEST(SelfPretrainingBaseline, CountsTheTokensThatAModelSees) {
  const auto of = [](int64_t ones, int64_t twos) {
    std::vector<uint8_t> tokens;
    std::vector<int64_t> offsets = {0};
    for (int i = 0; i < 4; ++i) {
      tokens.insert(tokens.end(), static_cast<size_t>(ones), 1);
      tokens.insert(tokens.end(), static_cast<size_t>(twos), 2);
      offsets.push_back(std::ssize(tokens));
    }
    return std::make_shared<PackedDataset<uint8_t>>("ones", tokens, offsets, std::vector<int32_t>(4, 0));
  };
  TaskData data = task_of(1);
  data.train = of(8, 92);
  data.valid = data.test = of(8, 0);
  const Problem problem =
      sequence::masked_tokens(options_of(4), with_mask_token(EncoderOptions::Pooling::mean), data, 0.5);
  const Metrics found = problem.baselines().front().test;
  EXPECT_NEAR(*find_metric(found, "perplexity"), (32.0 + kVocabulary) / (32 + 1), 1e-9);
  EXPECT_EQ(*find_metric(found, "accuracy"), 1);
}

TEST(TextsOfPairs, AreExamplesOfTheirOwn) {
  const auto pairs = texts(5, 2, 9);
  const LoaderOptions in_order{.batch_size = 3, .shuffle = false};
  sequence::TokenFeed given(pairs, in_order);
  sequence::TextsOfPairs feed(std::make_unique<sequence::TokenFeed>(pairs, in_order));
  EXPECT_EQ(feed.examples(), 10);
  EXPECT_EQ(feed.steps_per_epoch(), 2);
  feed.go_to(1);
  given.go_to(1);
  const Examples found = feed.next();
  const Tensor ids = given.next().at("ids");
  EXPECT_EQ(found.numbers, (std::vector<int64_t>{6, 7, 8, 9}));
  EXPECT_EQ(found.at("ids").shape(), Shape({4, ids.size(2)}));
  EXPECT_EQ(found.at("mask").shape(), found.at("ids").shape());
  EXPECT_EQ(found.at("ids").to_vector<int64_t>(), ids.to_vector<int64_t>());
}

TEST(SelfPretrainedPreset, LearnsTokensAndThenTheTask) {
  const TemporaryFolder folder;
  const auto lra = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {BOCHNER_LRA,
                                      "--preset=selfpretrained",
                                      "--task=image",
                                      "--random-data",
                                      "--model.dim=8",
                                      "--model.hidden=8",
                                      "--batch=2",
                                      "--threads=1",
                                      "--model.layers=1",
                                      "--steps=2",
                                      "--attention=linear-elu"};
    words.insert(words.end(), more.begin(), more.end());
    return Process(words, folder.path()).wait();
  };
  const Ended first = lra({"--learn=masked-tokens", "--precision=bf16", "--out=tokens"});
  ASSERT_EQ(first.code, 0) << first.err;
  const Ended second = lra({"--init=tokens", "--out=task"});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.err.find("lacks classifier."), std::string::npos) << second.err;
  EXPECT_NE(second.err.find("unused tensors: 'masked.bias', 'masked.weight'"), std::string::npos) << second.err;
  const auto results = [&](const std::string& run) {
    return nlohmann::json::parse(contents(folder / (run + "/results.json")));
  };
  EXPECT_EQ(results("tokens")["overrides"]["learn"], "masked-tokens");
  EXPECT_TRUE(results("tokens")["metrics"]["test"].contains("perplexity")) << results("tokens")["metrics"].dump();
  EXPECT_EQ(results("task")["init"]["file"], "tokens/checkpoint-best");
  const Ended analysed = Process({BOCHNER_LRA, "--analyse=tokens"}, folder.path()).wait();
  EXPECT_EQ(analysed.code, 2);
  EXPECT_NE(analysed.err.find("--analyse: tokens has not learnt the classes"), std::string::npos) << analysed.err;
}

}  // namespace
}  // namespace bochner
