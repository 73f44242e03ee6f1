// Contrastive learning: each first text of a batch finds its second one, and the task's model starts with that trunk.
#include <gtest/gtest.h>

#include <cmath>

#include "datasets/subset.h"
#include "experiments/learners/sequence/contrastive.h"
#include "tests/experiments/learner_problems.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using namespace test;  // NOLINT: the problems

/// Pairs of texts with one repeated token each: the same token in pairs of class 1, the next one in those of class 0.
std::shared_ptr<const Dataset> paired(int64_t examples, uint64_t seed) {
  Generator generator(seed);
  std::vector<uint8_t> tokens;
  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < examples; ++i) {
    const int64_t first = i / 2 % (kVocabulary - 1);  // a different one in each pair of a batch
    labels.push_back(static_cast<int32_t>(i % 2));
    for (const int64_t token : {first, i % 2 == 1 ? first : (first + 1) % (kVocabulary - 1)}) {
      tokens.insert(tokens.end(), static_cast<size_t>(4 + generator.below(4)), static_cast<uint8_t>(1 + token));
      offsets.push_back(static_cast<int64_t>(tokens.size()));
    }
  }
  return std::make_shared<PackedDataset<uint8_t>>("paired", tokens, offsets, labels, 2);
}

TaskData paired_task() {
  TaskData data = task_of(2);
  data.train = paired(64, 1);
  data.valid = paired(64, 2);
  data.test = paired(64, 3);
  return data;
}

TEST(InBatchContrast, IsTheLossOfTheDiagonal) {
  const std::vector<double> s = {2, 1, 0, -1, 3, 0.5, 4, 0, 1};
  const auto feed = sequence::contrastive(options_of(3), encoder("performer"), paired_task(), 0.1).split(Split::valid);
  const Examples batch = feed->next();
  EXPECT_EQ(batch.at("labels").to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2}));
  const sequence::InBatchContrast objective;
  const Outputs outputs = {Variable(Tensor::from(s, {3, 3}))};
  double expected = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double sum = std::exp(s[3 * i]) + std::exp(s[3 * i + 1]) + std::exp(s[3 * i + 2]);
    expected -= std::log(std::exp(s[4 * i]) / sum) / 3;
  }
  EXPECT_NEAR(objective.loss(outputs, batch).value().item(), expected, 1e-12);
  EXPECT_EQ(objective.correct(outputs, batch).item(), 2);
  EXPECT_FALSE(objective.terms(batch).defined());
}

TEST(Subset, OfOneClassKeepsItsOrder) {
  const auto all = paired(10, 4);
  const std::shared_ptr<const Dataset> together = examples_of(all, 1);
  ASSERT_EQ(together->size(), 5);
  for (int64_t i = 0; i < together->size(); ++i) {
    EXPECT_EQ(together->label(i), 1);
    for (int s = 0; s < 2; ++s) {
      ASSERT_EQ(together->length(i, s), all->length(2 * i + 1, s));
      std::vector<int64_t> found(static_cast<size_t>(together->length(i, s)));
      std::vector<int64_t> given(found.size());
      together->copy_tokens(i, s, found);
      all->copy_tokens(2 * i + 1, s, given);
      EXPECT_EQ(found, given);
    }
  }
  EXPECT_THROW(examples_of(all, 2), Error);
}

/// The scores are cosines: equal texts have the largest, 1 / T, whatever the lengths of their vectors.
TEST(Contrastive, ScoresAreCosinesOfTheTrunksVectors) {
  const TaskData data = paired_task();
  const double temperature = 0.25;
  Problem problem = sequence::contrastive(options_of(8), encoder("performer"), data, temperature);
  const Examples batch = problem.split(Split::valid)->next();
  const Tensor ids = batch.at("ids").clone();
  const Tensor mask = batch.at("mask").clone();
  ids.slice(1, 1, 2).copy_(ids.slice(1, 0, 1));
  mask.slice(1, 1, 2).copy_(mask.slice(1, 0, 1));
  Generator noise(1);
  Context context{.generator = noise};
  const Tensor s = problem.forward({{{"ids", ids}, {"mask", mask}}, batch.numbers}, context).at(0).value();
  const int64_t n = ids.size(0);
  ASSERT_EQ(s.shape(), Shape({n, n}));
  const std::vector<double> values = s.to_vector<double>();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const double one = values[static_cast<size_t>(i * n + j)];
      EXPECT_LE(one, 1 / temperature + 1e-4);
      if (i == j) {
        EXPECT_NEAR(one, 1 / temperature, 1e-4);
      }
      EXPECT_NEAR(one, values[static_cast<size_t>(j * n + i)], 1e-4);
    }
  }
}

TEST(Contrastive, FindsTheSecondTexts) {
  const RunOptions run = options_of(4);
  EncoderOptions options = encoder("performer");
  options.embedding_deviation = 0.01;  // so texts are much alike at first
  Learner learner(run, adamw(1e-2), sequence::contrastive(run, options, paired_task(), 0.1));
  const double before = metric(learner, "loss");
  for (int64_t step = 0; step < 200; ++step) learner.step(step);
  EXPECT_LT(metric(learner, "loss"), 0.3 * before);
  EXPECT_GT(metric(learner, "accuracy"), 0.9);
}

TEST(Contrastive, GivesTheTasksModelItsWholeTrunk) {
  const RunOptions run = options_of(4);
  const TensorMap learnt = sequence::contrastive(run, encoder("performer"), paired_task(), 0.1).model->state();
  for (const auto& [name, tensor] :
       sequence::classification(run, encoder("performer"), paired_task(), judged_by_accuracy()).model->state()) {
    EXPECT_EQ(learnt.contains(name), !name.starts_with("classifier.")) << name;
  }
}

TEST(Contrastive, TakesNoPartsOfABatch) {
  RunOptions run = options_of(4);
  run.accumulate = 2;
  EXPECT_THROW(Learner(run, adamw(), sequence::contrastive(run, encoder("performer"), paired_task(), 0.1)), Error);
}

TEST(PooledBatchNorm, IsRefusedForClassesOfBatchesOfSimilarLengths) {
  EncoderOptions options = encoder("performer");
  options.pooled_batch_norm = true;
  RunOptions run = options_of(4);
  EXPECT_NO_THROW(sequence::classification(run, options, paired_task(), judged_by_accuracy()));
  run.group_by_length = true;
  EXPECT_THROW(sequence::classification(run, options, paired_task(), judged_by_accuracy()), Error);
}

TEST(Contrastive, RefusesSingleTextsAndPairs) {
  EXPECT_THROW(sequence::contrastive(options_of(4), encoder("performer"), task_of(1), 0.1), Error);
  EXPECT_THROW(sequence::contrastive(options_of(1), encoder("performer"), paired_task(), 0.1), Error);
  const TemporaryFolder folder;
  const Ended ended =
      Process({BOCHNER_LRA, "--task=image", "--random-data", "--learn=contrastive", "--steps=1"}, folder.path()).wait();
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("not a pair; choose retrieval or films"), std::string::npos) << ended.err;
}

TEST(Contrastive, GivesItsWeightsToTheTask) {
  const TemporaryFolder folder;
  const auto lra = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {BOCHNER_LRA,       "--task=films",          "--films.max-length=40",
                                      "--random-data",   "--model.dim=8",         "--model.hidden=8",
                                      "--batch=4",       "--threads=1",           "--steps=2",
                                      "--preset=budget", "--attention=linear-elu"};
    words.insert(words.end(), more.begin(), more.end());
    return Process(words, folder.path()).wait();
  };
  const Ended first = lra({"--learn=contrastive", "--out=pairs"});
  ASSERT_EQ(first.code, 0) << first.err;
  const Ended second = lra({"--init=pairs", "--out=task"});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.err.find("lacks classifier."), std::string::npos) << second.err;
  const Ended analysed = Process({BOCHNER_LRA, "--analyse=pairs"}, folder.path()).wait();
  EXPECT_EQ(analysed.code, 2);
  EXPECT_NE(analysed.err.find("has not learnt the classes"), std::string::npos) << analysed.err;
}

}  // namespace
}  // namespace bochner
