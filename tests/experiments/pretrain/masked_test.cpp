// Masked tokens: what is hidden, how often, and when again; the loss and the metrics of any model that names them; a
// model that learns to, and gets far below the loss that counting words gives.
#include "experiments/learners/masked/masked_tokens.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "autograd/ops/join.h"
#include "autograd/ops/view.h"
#include "engine/ops/softmax.h"
#include "tests/experiments/learner_problems.h"

namespace bochner {
namespace {

using namespace test;  // NOLINT: the problems

constexpr int64_t kIds = 11;   // 0 is padding, 1 and 2 are special
constexpr int64_t kMask = 11;  // one more

/// Sequences 1 a a+1 a+2 ... 2 that count on from 3 to 10 and start again, so that a token follows from its neighbour.
std::shared_ptr<const Dataset> counting(int64_t examples, int64_t shortest, int64_t longest, uint64_t seed) {
  Generator generator(seed);
  std::vector<uint8_t> tokens;
  std::vector<int64_t> offsets = {0};
  for (int64_t i = 0; i < examples; ++i) {
    const int64_t length = shortest + generator.below(longest - shortest + 1);
    const int64_t first = generator.below(8);
    for (int64_t k = 0; k < length; ++k) {
      tokens.push_back(static_cast<uint8_t>(k == 0 ? 1 : k == length - 1 ? 2 : 3 + (first + k) % 8));
    }
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  return std::make_shared<PackedDataset<uint8_t>>("counting", tokens, offsets,
                                                  std::vector<int32_t>(static_cast<size_t>(examples), 0));
}

MaskedFeed masked(const std::shared_ptr<const Dataset>& data, int64_t batch, Masks masks, bool shuffle = true,
                  MaskingOptions options = {.vocabulary = kIds, .mask = kMask, .special = {1, 2}}) {
  const LoaderOptions order{.batch_size = batch, .shuffle = shuffle, .seed = 5};
  return {std::make_unique<sequence::TokenFeed>(data, order), std::move(options), 7, masks};
}

TEST(MaskedFeed, HidesAShareOfTheTokensAsBertDoes) {
  const auto data = counting(400, 20, 60, 1);
  MaskedFeed feed = masked(data, 16, Masks::anew);
  int64_t hidden = 0;
  int64_t masks = 0;
  int64_t same = 0;
  int64_t others = 0;
  std::set<int64_t> random;
  for (int64_t step = 0; step < 4 * feed.steps_per_epoch(); ++step) {
    const Examples batch = feed.next();
    const auto ids = batch.at("ids").to_vector<int64_t>();
    const auto places = batch.at("places").to_vector<int64_t>();
    const auto labels = batch.at("labels").to_vector<int64_t>();
    const int64_t length = batch.at("ids").size(1);
    const int64_t most = batch.at("places").size(1);
    for (int64_t i = 0; i < batch.size(); ++i) {
      const int64_t example = batch.numbers[static_cast<size_t>(i)];
      std::vector<int64_t> whole(static_cast<size_t>(data->length(example)));
      data->copy_tokens(example, 0, whole);
      int64_t count = 0;
      int64_t before = 0;
      for (int64_t j = 0; j < most; ++j) {
        const int64_t label = labels[static_cast<size_t>(i * most + j)];
        if (label == kNoLabel) continue;
        const int64_t place = places[static_cast<size_t>(i * most + j)];
        EXPECT_GT(place, before);  // so none is chosen twice, and the first token, a special one, is never chosen
        before = place;
        ASSERT_LT(place, std::ssize(whole) - 1);
        EXPECT_EQ(label, whole[static_cast<size_t>(place)]);
        const int64_t now = ids[static_cast<size_t>(i * length + place)];
        masks += now == kMask ? 1 : 0;
        same += now == label ? 1 : 0;
        others += now != kMask && now != label ? 1 : 0;
        if (now != kMask && now != label) random.insert(now);
        whole[static_cast<size_t>(place)] = now;
        ++count;
      }
      EXPECT_EQ(count, std::llround(0.15 * static_cast<double>(whole.size() - 2)));
      hidden += count;
      for (size_t k = 0; k < whole.size(); ++k) EXPECT_EQ(ids[static_cast<size_t>(i * length) + k], whole[k]);
    }
  }
  const auto share = [&](int64_t count) { return static_cast<double>(count) / static_cast<double>(hidden); };
  EXPECT_NEAR(share(masks), 0.8, 0.02);  // of about 9,000
  EXPECT_NEAR(share(others), 0.1 * 10 / 11, 0.015);
  EXPECT_NEAR(share(same), 0.1 + 0.1 / 11, 0.015);
  EXPECT_EQ(random.size(), 11U);  // every id, as in BERT
}

TEST(MaskedFeed, DrawsFromSeedEpochAndExampleAlone) {
  const auto data = counting(20, 30, 30, 1);
  const auto epoch = [](MaskedFeed& feed) {  // the positions in each example
    std::map<int64_t, std::vector<int64_t>> places;
    for (int64_t step = 0; step < feed.steps_per_epoch(); ++step) {
      const Examples batch = feed.next();
      for (int64_t i = 0; i < batch.size(); ++i) {
        places[batch.numbers[static_cast<size_t>(i)]] = batch.at("places").slice(0, i, i + 1).to_vector<int64_t>();
      }
    }
    return places;
  };
  MaskedFeed feed = masked(data, 8, Masks::anew);
  const auto first = epoch(feed);
  const auto second = epoch(feed);
  EXPECT_NE(first, second);
  MaskedFeed ordered = masked(data, 3, Masks::anew, false);
  EXPECT_EQ(epoch(ordered), first);  // whatever batch an example is in
  EXPECT_EQ(epoch(ordered), second);
  feed.go_to(4);
  const Examples batch = feed.next();
  EXPECT_EQ(batch.at("places").slice(0, 0, 1).to_vector<int64_t>(), second.at(batch.numbers[0]));
  MaskedFeed fixed = masked(data, 8, Masks::fixed);
  EXPECT_EQ(epoch(fixed), first);
  EXPECT_EQ(epoch(fixed), first);
}

TEST(MaskedFeed, HidesOneTokenAtLeastAndNoneWhereThereIsNone) {
  MaskedFeed small = masked(counting(4, 3, 3, 1), 4, Masks::anew);
  EXPECT_EQ(small.next().at("labels").shape(), (Shape{4, 1}));
  MaskedFeed none = masked(counting(4, 2, 2, 1), 4, Masks::anew);
  EXPECT_EQ(none.next().at("labels").to_vector<int64_t>(), std::vector<int64_t>(4, kNoLabel));
}

TEST(MaskedFeed, RefusesSharesThatAreNone) {
  const auto data = counting(4, 5, 5, 1);
  const auto refused = [&](MaskingOptions options) {
    EXPECT_THROW(masked(data, 4, Masks::anew, true, options), Error);
  };
  refused({.vocabulary = 0, .mask = 1});
  refused({.vocabulary = 5, .mask = -1});
  refused({.vocabulary = 5, .mask = 5, .share = 1.5});
  refused({.vocabulary = 5, .mask = 5, .masked = 0.8, .random = 0.3});
}

/// Names a token from itself and its two neighbours, and classifies a pair by its first token.
class Neighbours final : public Module {
 public:
  explicit Neighbours(Generator& init)
      : tokens_(sub("tokens"), kMask + 1, 16, 0.5, init),
        out_(sub("out"), 48, kIds, init),
        next_(sub("next"), 16, 2, init) {}
  Outputs forward(const Examples& examples, bool next) const {
    const Variable x = tokens_.forward(examples.at("ids"));
    const int64_t n = x.size(1);
    const Variable before = concat({slice(x, 1, 0, 1), slice(x, 1, 0, n - 1)}, 1);
    const Variable after = concat({slice(x, 1, 1, n), slice(x, 1, n - 1, n)}, 1);
    Outputs outputs = {out_.forward(states_at(concat({before, x, after}, 2), examples.at("places")))};
    if (next) outputs.push_back(next_.forward(select(x, 1, 1)));
    return outputs;
  }

 private:
  Embedding tokens_;
  Linear out_, next_;
};

/// Adds `next`: 1 if the second token is not 3 or 4.
class WithNext final : public FeedOver {
  using FeedOver::FeedOver;
  Examples examples_of(Examples examples) override {
    const Tensor next = Tensor::zeros({examples.size()}, DType::i64);
    const Tensor ids = examples.at("ids");
    for (int64_t i = 0; i < examples.size(); ++i) {
      next.data<int64_t>()[i] = ids.data<int64_t>()[i * ids.size(1) + 1] > 4 ? 1 : 0;
    }
    examples.tensors.emplace_back("next", next);
    return examples;
  }
};

Problem problem_of(const RunOptions& run, bool next = false, int64_t test_batch = 16) {
  Generator init = stream_of(run.seed, Stream::init);
  const auto model = std::make_shared<Neighbours>(init);
  const auto feed_of = [](const std::shared_ptr<const Dataset>& data, int64_t batch, Masks masks) {
    auto tokens = std::make_unique<sequence::TokenFeed>(data, LoaderOptions{.batch_size = batch, .seed = 5});
    const MaskingOptions options{.vocabulary = kIds, .mask = kMask, .special = {1, 2}};
    return std::make_unique<MaskedFeed>(std::make_unique<WithNext>(std::move(tokens)), options, 7, masks);
  };
  Problem problem;
  problem.model = model;
  problem.forward = [model, next](const Examples& examples, Context&) { return model->forward(examples, next); };
  problem.objective = std::make_shared<MaskedTokens>(next);
  problem.train = feed_of(counting(64, 20, 40, 1), run.batch, Masks::anew);
  problem.split = [feed_of, test_batch](Split) { return feed_of(counting(40, 20, 40, 2), test_batch, Masks::fixed); };
  std::vector<std::string> names = {"loss", "perplexity", "accuracy"};
  if (next) names.emplace_back("next-sentence");
  problem.metrics = metrics_named(names);
  return problem;
}

/// A problem, its first batch of 8, and the model's output for it.
struct Answered {
  Problem problem;
  Examples batch;
  Outputs outputs;
};

Answered answered() {
  Problem problem = problem_of(options_of(8));
  const Examples batch = problem.train->next();
  Generator noise(0);
  Context context{noise, false};
  const Outputs outputs = problem.forward(batch, context);
  return {std::move(problem), batch, outputs};
}

TEST(MaskedTokens, TheLossIsTheMeanOverTokensThatHaveALabel) {
  const auto [problem, batch, outputs] = answered();
  const std::vector<double> scores = outputs[0].value().to_vector<double>();
  const std::vector<int64_t> labels = batch.at("labels").to_vector<int64_t>();
  ASSERT_EQ(scores.size(), labels.size() * kIds);
  double nats = 0;
  double count = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kNoLabel) continue;
    double sum = 0;
    for (size_t c = 0; c < kIds; ++c) sum += std::exp(scores[i * kIds + c]);
    nats += std::log(sum) - scores[i * kIds + static_cast<size_t>(labels[i])];
    count += 1;
  }
  ASSERT_LT(count, static_cast<double>(labels.size()));  // some example has fewer than another
  EXPECT_NEAR(problem.objective->loss(outputs, batch).item(), nats / count, 1e-6);
  EXPECT_EQ(problem.objective->terms(batch).item(), count);
  EXPECT_EQ(static_cast<double>(problem.objective->judged(batch)), count);
  Answers answers;
  problem.objective->collect(outputs, batch, answers);
  EXPECT_EQ(static_cast<double>(answers.labels.size()), count);
  EXPECT_NEAR(metrics_named({"perplexity"})[0].of(answers), std::exp(nats / count), 1e-5);
}

TEST(MaskedTokens, PredictionsAreOfHiddenPlacesAlone) {
  const auto [problem, batch, outputs] = answered();
  const std::vector<int64_t> labels = batch.at("labels").to_vector<int64_t>();
  const std::vector<int64_t> places = batch.at("places").to_vector<int64_t>();
  const std::vector<double> scores = outputs[0].value().to_vector<double>();
  std::vector<std::string> expected(8);
  const size_t hidden = labels.size() / 8;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kNoLabel) continue;
    const auto row = scores.begin() + static_cast<std::ptrdiff_t>(i * kIds);
    std::string& answer = expected[i / hidden];
    answer += fmt::format("{}{}:<{}>", answer.empty() ? "" : " ", places[i],
                          std::max_element(row, row + static_cast<std::ptrdiff_t>(kIds)) - row);
  }
  const MaskedTokens named(false, [](int64_t id) { return fmt::format("<{}>", id); });
  const std::vector<Prediction> predictions = named.predictions(outputs, batch);
  ASSERT_EQ(predictions.size(), 8U);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(predictions[i].answer, expected[i]);
}

TEST(MaskedTokens, ABatchInPartsIsTheWholeBatch) {
  Learner whole(options_of(8), adamw(), problem_of(options_of(8)));
  Learner parts(options_of(8, 3), adamw(), problem_of(options_of(8, 3)));
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_NEAR(whole.step(step).loss.item(), parts.step(step).loss.item(), 1e-6);
  }
  EXPECT_LT(apart(whole, parts), 1e-5);
  EXPECT_THROW(Learner(options_of(8, 3), adamw(), problem_of(options_of(8, 3), true)), Error);
}

TEST(MaskedTokens, PerplexityDoesNotDependOnBatches) {
  Learner small(options_of(8), adamw(), problem_of(options_of(8), false, 7));
  Learner large(options_of(8), adamw(), problem_of(options_of(8), false, 40));
  EXPECT_NEAR(metric(small, "perplexity"), metric(large, "perplexity"), 1e-4);
  EXPECT_NEAR(metric(small, "perplexity"), std::exp(metric(small, "loss")), 1e-4);
}

TEST(MaskedTokens, AModelOfNeighboursComesFarBelowTheUnigram) {
  const RunOptions run = options_of(8);
  Learner learner(run, adamw(2e-2), problem_of(run));
  std::vector<int64_t> counts(kIds, 0);
  for (size_t id = 3; id < kIds; ++id) counts[id] = 1'000'000;  // eight tokens, equally often
  MaskedFeed split = masked(counting(40, 20, 40, 2), 16, Masks::fixed);
  const Baseline unigram = unigram_baseline(counts, split);
  EXPECT_NEAR(*find_metric(unigram.test, "perplexity"), 8, 1e-4);
  EXPECT_NEAR(*find_metric(unigram.test, "accuracy"), 1.0 / 8, 0.06);
  for (int64_t step = 0; step < 300; ++step) learner.step(step);
  EXPECT_LT(metric(learner, "perplexity"), 8.0 / 3);
  EXPECT_GT(metric(learner, "accuracy"), 0.8);
}

TEST(MaskedTokens, TheNextSentenceIsLearntBesides) {
  const RunOptions run = options_of(8);
  Learner learner(run, adamw(2e-2), problem_of(run, true));
  for (int64_t step = 0; step < 300; ++step) learner.step(step);
  EXPECT_GT(metric(learner, "next-sentence"), 0.9);
  EXPECT_LT(metric(learner, "perplexity"), 8.0 / 3);
  EXPECT_GT(metric(learner, "loss"), std::log(metric(learner, "perplexity")));  // of both
}

TEST(MaskedTokens, StatesAreThoseAtThePlaces) {
  const Variable x(Tensor::from(std::vector<float>{0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121}, {2, 3, 2}));
  const Tensor places = Tensor::from(std::vector<int64_t>{2, 0, 1, 1}, {2, 2});
  EXPECT_EQ(states_at(x, places).value().to_vector<float>(), (std::vector<float>{20, 21, 0, 1, 110, 111, 110, 111}));
  EXPECT_THROW(states_at(x, places.slice(0, 0, 1)), Error);
}

}  // namespace
}  // namespace bochner
