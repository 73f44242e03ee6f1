// The Learner on small problems of every shape: classes, pairs, one label per token, numbers; batches in parts, with
// frozen parameters, with a hook, and continued.
#include "experiments/learners/learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/view.h"
#include "tests/experiments/learner_problems.h"

namespace bochner {
namespace {

using namespace test;  // NOLINT: the problems

TEST(Learner, ABatchInPartsIsTheWholeBatch) {
  const TaskData data = task_of(1);
  OptimConfig optim = adamw();
  optim.eps = 1e-3;  // keys' biases have no gradient but rounding, which Adam would make as large as any
  for (const std::string attention : {"softmax", "performer", "gmm-prf"}) {  // redrawn at every second step
    Learner whole(options_of(8), optim,
                  sequence::classification(options_of(8), encoder(attention), data, judged_by_accuracy()));
    Learner parts(options_of(8, 3), optim,
                  sequence::classification(options_of(8, 3), encoder(attention), data, judged_by_accuracy()));
    for (int64_t step = 0; step < 6; ++step) {
      const StepResult a = whole.step(step);
      const StepResult b = parts.step(step);
      EXPECT_NEAR(a.loss.item(), b.loss.item(), 1e-6) << attention << " " << step;
      EXPECT_EQ(a.correct.item(), b.correct.item()) << attention << " " << step;
      EXPECT_EQ(b.count, 8);
    }
    EXPECT_LT(apart(whole, parts), 1e-6) << attention;  // a step moves by 1e-3
  }
}

TEST(Learner, PartsAreWeighedByTheirTerms) {
  Learner whole(options_of(8), adamw(), of_tokens(options_of(8)));
  Learner parts(options_of(8, 4), adamw(), of_tokens(options_of(8, 4)));
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_NEAR(whole.step(step).loss.item(), parts.step(step).loss.item(), 1e-6);
  }
  EXPECT_LT(apart(whole, parts), 1e-5);
}

TEST(Learner, AShortLastBatchHasFewerParts) {
  const TableSplit rows = line(10, 1);  // batches of 8 and 2
  Learner whole(options_of(8), adamw(), of_numbers(options_of(8), rows));
  Learner parts(options_of(8, 4), adamw(), of_numbers(options_of(8, 4), rows));
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_NEAR(whole.step(step).loss.item(), parts.step(step).loss.item(), 1e-6) << step;
  }
}

TEST(Learner, RefusesPartsThatThereAreNot) {
  const TableSplit rows = line(64, 1);
  const auto message = [](const RunOptions& run, Problem problem) -> std::string {
    try {
      const Learner learner(run, adamw(), std::move(problem));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const RunOptions many = options_of(8, 9);
  EXPECT_EQ(message(many, of_numbers(many, rows)), "--accumulate=9: a batch of 8 examples has not so many parts");
  class Whole final : public Regression {
   public:
    Whole() : Regression("labels") {}
    Tensor terms(const Examples&) const override { return {}; }
  };
  Problem whole = of_numbers(options_of(8, 2), rows);
  whole.objective = std::make_shared<Whole>();
  EXPECT_NE(message(options_of(8, 2), std::move(whole)).find("no mean over examples"), std::string::npos);
}

TEST(Learner, LearnsWhetherTwoTextsBeginAlike) {
  const TaskData data = task_of(2);
  const RunOptions run = options_of(16);
  Generator init = stream_of(run.seed, Stream::init);
  /// Two towers in one: (u, v, u v) of the first tokens' embeddings.
  class Towers final : public Module {
   public:
    explicit Towers(Generator& init)
        : tokens_(sub("tokens"), kVocabulary, 8, 0.5, init), out_(sub("out"), 24, 2, init) {}
    Variable forward(const Tensor& ids) const {  // (n, 2, length)
      const Variable first = select(tokens_.forward(ids), 2, 0);
      const Variable u = select(first, 1, 0);
      const Variable v = select(first, 1, 1);
      return out_.forward(concat({u, v, u * v}, 1));
    }

   private:
    Embedding tokens_;
    Linear out_;
  };
  const auto model = std::make_shared<Towers>(init);
  Problem problem;
  problem.model = model;
  problem.forward = [model](const Examples& examples, Context&) -> Outputs {
    EXPECT_EQ(examples.at("ids").rank(), 3);
    EXPECT_EQ(examples.at("mask").shape(), examples.at("ids").shape());
    return {model->forward(examples.at("ids"))};
  };
  problem.objective = std::make_shared<Classification>();
  problem.train = std::make_unique<sequence::TokenFeed>(data.train, LoaderOptions{.batch_size = 16, .seed = 5});
  problem.split = [data](Split) {
    return std::make_unique<sequence::TokenFeed>(data.test, LoaderOptions{.batch_size = 16, .shuffle = false});
  };
  problem.metrics = metrics_named({"accuracy", "f1", "mcc", "auc"});
  Learner learner(run, adamw(1e-2), std::move(problem));
  EXPECT_LT(metric(learner, "mcc"), 0.9);
  for (int64_t step = 0; step < 200; ++step) learner.step(step);
  for (const auto& [name, value] : learner.evaluate(Split::test)) EXPECT_EQ(value, 1) << name;
}

TEST(Learner, LearnsALabelForEachTokenThatHasOne) {
  Learner learner(options_of(8), adamw(2e-2), of_tokens(options_of(8)));
  const StepResult first = learner.step(0);
  EXPECT_EQ(first.count, 8);
  EXPECT_GT(first.judged, 0);
  EXPECT_LT(first.judged, 8 * 8);
  EXPECT_LE(first.correct.item(), static_cast<double>(first.judged));
  for (int64_t step = 1; step < 200; ++step) learner.step(step);
  EXPECT_EQ(metric(learner, "accuracy"), 1);  // for the tokens that have a label; no guess is right elsewhere
  EXPECT_LT(metric(learner, "loss"), 0.1);
  int64_t lines = 0;
  learner.predict("predictions.tsv", [&](const Prediction& one) {
    ++lines;
    EXPECT_TRUE(one.numbers.empty());
    EXPECT_NE(one.answer.find(' '), std::string::npos);  // one class per token
  });
  EXPECT_EQ(lines, 40);
}

TEST(Learner, LossOfASplitIsTheMeanOverAllItsTerms) {
  Learner learner(options_of(8), adamw(), of_tokens(options_of(8)));
  const auto model = [&] {  // the same weights, judged in one batch
    Problem all = of_tokens(options_of(8));
    all.split = [](Split) {
      return std::make_unique<TokenLabels>(task_of(1).test, LoaderOptions{.batch_size = 40, .shuffle = false}, 4);
    };
    return std::make_unique<Learner>(options_of(8), adamw(), std::move(all));
  }();
  EXPECT_NEAR(metric(learner, "loss"), metric(*model, "loss"), 1e-6);
  EXPECT_EQ(metric(learner, "accuracy"), metric(*model, "accuracy"));
}

TEST(Learner, LearnsNumbers) {
  const TableSplit rows = line(64, 1);
  Learner learner(options_of(16), adamw(5e-2), of_numbers(options_of(16), rows));
  EXPECT_FALSE(learner.step(0).correct.defined());
  for (int64_t step = 1; step < 400; ++step) learner.step(step);
  EXPECT_LT(metric(learner, "loss"), 1e-3);
  EXPECT_GT(metric(learner, "pearson"), 0.9999);
  EXPECT_GT(metric(learner, "spearman"), 0.999);
  const std::vector<double> truths = rows.labels.to_vector<double>();
  size_t i = 0;
  learner.predict("predictions.tsv",
                  [&](const Prediction& one) { EXPECT_NEAR(std::stod(one.answer), truths[i++], 0.2); });
  EXPECT_EQ(i, truths.size());
}

TEST(Learner, PredictsTheClassAndItsProbabilities) {
  const TaskData data = task_of(1);
  const RunOptions run = options_of(16);
  Learner learner(run, adamw(), sequence::classification(run, encoder("softmax"), data, judged_by_accuracy()));
  int64_t right = 0;
  int64_t i = 0;
  learner.predict("predictions.tsv", [&](const Prediction& one) {
    ASSERT_EQ(one.numbers.size(), 2U);
    EXPECT_NEAR(one.numbers[0] + one.numbers[1], 1, 1e-12);
    EXPECT_EQ(one.answer, one.numbers[1] > one.numbers[0] ? "1" : "0");
    right += std::stoll(one.answer) == data.test->label(i++) ? 1 : 0;
  });
  EXPECT_EQ(i, 40);
  EXPECT_EQ(static_cast<double>(right) / 40, metric(learner, "accuracy"));
}

TEST(Learner, PredictsInTheOrderOfTheSetThoughBatchesAreOfSimilarLengths) {
  const TaskData data = task_of(1);
  const auto predicted = [&](bool grouped) {
    RunOptions run = options_of(8);
    run.group_by_length = grouped;
    Problem problem = sequence::classification(run, encoder("softmax"), data, judged_by_accuracy());
    const std::vector<int64_t> first = problem.split(Split::test)->next().numbers;
    EXPECT_EQ(std::is_sorted(first.begin(), first.end()) && first.back() == 7, !grouped);
    Learner learner(run, adamw(), std::move(problem));
    std::vector<double> shares;
    learner.predict("predictions.tsv", [&](const Prediction& one) { shares.push_back(one.numbers[1]); });
    return shares;
  };
  const std::vector<double> expected = predicted(false);
  const std::vector<double> found = predicted(true);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << i;
}

TEST(Learner, AnswersInSeveralFilesWithTheNamesOfClasses) {
  const TaskData data = task_of(1);
  const RunOptions run = options_of(16);
  Problem problem = sequence::classification(run, encoder("softmax"), data, judged_by_accuracy());
  const auto feed_of = [](std::shared_ptr<const Dataset> set) {
    return
        [set] { return std::make_unique<sequence::TokenFeed>(set, LoaderOptions{.batch_size = 16, .shuffle = false}); };
  };
  problem.objective = std::make_shared<Classification>("labels", std::vector<std::string>{"no", "yes"},
                                                       Classification::Tells::class_alone);
  problem.asked = {{"valid.tsv", feed_of(data.valid)}, {"train.tsv", feed_of(data.train)}};
  Learner learner(run, adamw(), std::move(problem));
  EXPECT_EQ(learner.answer_files(), (std::vector<std::string>{"valid.tsv", "train.tsv"}));
  int64_t right = 0;
  int64_t i = 0;
  learner.predict("train.tsv", [&](const Prediction& one) {
    EXPECT_TRUE(one.numbers.empty());
    EXPECT_TRUE(one.answer == "no" || one.answer == "yes") << one.answer;
    right += one.answer == (data.train->label(i++) == 1 ? "yes" : "no") ? 1 : 0;
  });
  EXPECT_EQ(i, 64);
  Problem of_train = sequence::classification(run, encoder("softmax"), data, judged_by_accuracy());
  of_train.split = [&](Split) { return feed_of(data.train)(); };
  Learner same(run, adamw(), std::move(of_train));
  EXPECT_EQ(static_cast<double>(right) / 64, metric(same, "accuracy"));
}

TEST(Learner, FrozenParametersStayAndAreNotCounted) {
  const TaskData data = task_of(1);
  const RunOptions run = options_of(8);
  Problem problem = sequence::classification(run, encoder("softmax"), data, judged_by_accuracy());
  const int64_t all = problem.model->parameter_count();
  problem.groups = {{.pattern = "tokens.*", .frozen = true}, {.pattern = "blocks.*", .rate = 0}};
  Learner learner(run, adamw(), std::move(problem));
  EXPECT_EQ(learner.parameters(), all - kVocabulary * 8);
  const auto before = weights_of(learner);
  for (int64_t step = 0; step < 3; ++step) learner.step(step);
  for (const auto& [name, values] : weights_of(learner)) {
    const bool stays = name.starts_with("tokens.") || name.starts_with("blocks.");
    EXPECT_EQ(values == before.at(name), stays) << name;
  }
  State state;
  learner.save_training(state);
  EXPECT_FALSE(state.tensors.contains("optimizer.tokens.weight.first_moment"));
  EXPECT_TRUE(state.tensors.contains("optimizer.norm.weight.first_moment"));
}

TEST(Learner, GoesOnFromWhatItSavedBitForBit) {
  const TaskData data = task_of(1);
  const RunOptions run = options_of(8, 2);
  const auto make = [&] {
    EncoderOptions options = encoder("gmm-prf");
    options.dropout = 0.1;
    return std::make_unique<Learner>(run, adamw(), sequence::classification(run, options, data, judged_by_accuracy()));
  };
  const auto whole = make();
  for (int64_t step = 0; step < 12; ++step) whole->step(step);  // past the end of an epoch of 8
  const auto first = make();
  for (int64_t step = 0; step < 5; ++step) first->step(step);
  first->evaluate(Split::valid);
  State state;
  first->save_model(state);
  first->save_training(state);
  const auto second = make();
  second->load_model(state);
  second->load_training(state);
  for (int64_t step = 5; step < 12; ++step) second->step(step);
  EXPECT_EQ(weights_of(*second), weights_of(*whole));
  EXPECT_EQ(second->blame(10).examples, whole->blame(10).examples);
}

TEST(Learner, FrozenWeightsOfAFileAreNotInCheckpoints) {
  const TaskData data = task_of(1);
  const RunOptions run = options_of(8);
  const auto make = [&](const std::string& sha256) {
    Problem problem = sequence::classification(run, encoder("softmax"), data, judged_by_accuracy());
    problem.groups = {{.pattern = "tokens.*", .frozen = true}};
    if (!sha256.empty()) problem.base = {"base.safetensors", sha256, {"tokens.weight"}};
    return std::make_unique<Learner>(run, adamw(), std::move(problem));
  };
  const auto whole = make("1");
  const auto first = make("1");
  for (int64_t step = 0; step < 4; ++step) whole->step(step);
  for (int64_t step = 0; step < 2; ++step) first->step(step);
  State state;
  first->save_model(state);
  first->save_training(state);
  EXPECT_FALSE(state.tensors.contains("tokens.weight"));
  EXPECT_TRUE(leaves_out_weights(state));
  const auto second = make("1");
  second->load_model(state);
  second->load_training(state);
  for (int64_t step = 2; step < 4; ++step) second->step(step);
  EXPECT_EQ(weights_of(*second), weights_of(*whole));

  const auto refuses = [&](const std::string& sha256, const std::string& text) {
    try {
      make(sha256)->load_model(state);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  refuses("2", "base.safetensors has the SHA-256 2");
  refuses("", "this model reads no such file");

  // Frozen weights from another origin are saved in checkpoints.
  State other;
  first->save_whole_model(other);
  EXPECT_FALSE(leaves_out_weights(other));
  first->load_model(other);
  State same;
  first->save_model(same);
  EXPECT_TRUE(leaves_out_weights(same));
  other.tensors["tokens.weight"] = Tensor::full(other.tensors["tokens.weight"].shape(), 3);
  first->load_model(other);
  State changed;
  first->save_model(changed);
  EXPECT_FALSE(leaves_out_weights(changed));
  EXPECT_EQ(changed.tensors.at("tokens.weight").to_vector<float>()[0], 3);
}

TEST(Learner, ACheckpointWithoutItsPlaceIsRefusedInALine) {
  const TableSplit rows = line(64, 1);
  Learner learner(options_of(8), adamw(), of_numbers(options_of(8), rows));
  State state;
  learner.save_training(state);
  state.file = "old-run/checkpoint-last";
  const auto expect_refused = [&] {
    try {
      learner.load_training(state);
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("old-run/checkpoint-last"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("next_step"), std::string::npos);
    }
  };
  state.set("next_step", int64_t{-1});
  expect_refused();
  state.values.erase("next_step");
  expect_refused();
}

TEST(Learner, EachSplitOfSequencesHasItsOwnExamples) {
  TaskData data = task_of(1);
  data.valid = texts(24, 1, 2);
  const Problem p = sequence::classification(options_of(8), encoder("softmax"), data, judged_by_accuracy());
  EXPECT_EQ(p.split(Split::valid)->examples(), 24);
  EXPECT_EQ(p.split(Split::test)->examples(), 40);
}

TEST(Learner, TheOrderOfSequencesDependsOnTheSeed) {
  const TaskData data = task_of(1);
  const auto first = [&](uint64_t seed) {
    RunOptions run = options_of(8);
    run.seed = seed;
    return sequence::classification(run, encoder("softmax"), data, judged_by_accuracy()).train->next().numbers;
  };
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
}

TEST(Learner, ZerosAreMaskedWhereTheTaskSaysSo) {
  TaskData data = task_of(1);
  data.train = std::make_shared<PackedDataset<uint8_t>>("zeros", std::vector<uint8_t>{1, 0, 2, 0},
                                                        std::vector<int64_t>{0, 2, 4}, std::vector<int32_t>{0, 1}, 1);
  data.task.masks_zeros = true;
  const Problem p = sequence::classification(options_of(2), encoder("softmax"), data, judged_by_accuracy());
  EXPECT_EQ(p.train->next().at("mask").cast(DType::i64).to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 1, 0}));
}

TEST(Learner, ClipsGradientsByValueBesideTheNorm) {
  const TableSplit rows = line(16, 1);
  OptimConfig optim = adamw();
  optim.eps = 1;  // so that a small gradient gives a small step
  optim.weight_decay = 0;
  optim.clip_norm = 1e9;
  optim.clip_value = 1e-2;
  Learner still(options_of(8), optim, of_numbers(options_of(8), rows));
  Learner moved(options_of(8), optim, of_numbers(options_of(8), rows));
  moved.step(0);
  EXPECT_LT(apart(still, moved), 1.1e-2 * optim.rate);
}

TEST(Learner, ALossThatIsNoNumberMovesNothing) {
  TableSplit rows = line(16, 1);
  rows.features.fill_(std::numeric_limits<double>::quiet_NaN());
  Learner learner(options_of(8), adamw(), of_numbers(options_of(8), rows));
  const auto before = weights_of(learner);
  learner.step(0);
  EXPECT_EQ(weights_of(learner), before);
}

TEST(Learner, LogsTheRateOfTheStep) {
  const TableSplit rows = line(16, 1);
  OptimConfig optim = adamw();
  optim.schedule = "linear";
  optim.warmup = 0;
  Learner learner(options_of(8), optim, of_numbers(options_of(8), rows));
  for (int64_t step = 0; step < 3; ++step) {
    learner.step(step);
    EXPECT_EQ(*find_metric(learner.extra(), "rate"), optim.schedule_of(100).rate(step));
  }
}

}  // namespace
}  // namespace bochner
