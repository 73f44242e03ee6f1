// The analyses of trained models, on models and numbers whose answers are known.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "datasets/subset.h"
#include "engine/ops/binary.h"
#include "engine/ops/linalg.h"
#include "engine/ops/matmul.h"
#include "engine/random.h"
#include "experiments/learners/analysis/covariances.h"
#include "experiments/learners/analysis/instability.h"
#include "experiments/learners/analysis/noise.h"
#include "experiments/learners/analysis/singular_values.h"
#include "tests/experiments/learner_problems.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

TEST(Noise, OfOneExampleIsCounted) {
  // Ten evaluations of two classes: margins 1 seven times, -1 three times; class 1 is right.
  std::vector<std::vector<double>> scores(7, {0, 1});
  scores.insert(scores.end(), 3, {1, 0});
  const ExampleNoise one = noise_of_example(scores, 1);
  EXPECT_NEAR(one.accuracy, 0.7, 1e-15);
  EXPECT_TRUE(one.voted_right);
  EXPECT_NEAR(one.inconsistency, 30, 1e-12);                          // min(7, 3) of 10, of 100
  EXPECT_NEAR(one.relative_deviation, std::sqrt(0.84) / 0.4, 1e-12);  // variance 1 - 0.4^2
  EXPECT_FALSE(noise_of_example(scores, 0).voted_right);
  EXPECT_NEAR(noise_of_example(scores, 0).accuracy, 0.3, 1e-15);
  // With three classes there is no score to deviate; the vote takes the most frequent class.
  const ExampleNoise three = noise_of_example({{3, 0, 0}, {0, 0, 3}, {0, 0, 3}, {0, 3, 0}}, 2);
  EXPECT_TRUE(three.voted_right);
  EXPECT_NEAR(three.inconsistency, 50, 1e-12);
  EXPECT_TRUE(std::isnan(three.relative_deviation));
  // Equal scores do not deviate at all, whatever their rounding.
  EXPECT_EQ(noise_of_example(std::vector<std::vector<double>>(100, {0.1, 0.3}), 1).relative_deviation, 0);
}

TEST(Noise, TheFirstClassWinsATieOfVotes) {
  EXPECT_TRUE(noise_of_example({{1, 0}, {0, 1}}, 0).voted_right);
  EXPECT_FALSE(noise_of_example({{1, 0}, {0, 1}}, 1).voted_right);
}

Problem small_problem(const std::string& attention, const TaskData& data) {
  EncoderOptions options = test::encoder(attention);
  options.attention.mechanism.set_known({{"redraw-in-evaluation", true}});
  return sequence::classification(test::options_of(8), options, data, test::judged_by_accuracy());
}

TEST(Noise, IsNoneWhereNothingIsDrawnAndSomeWhereFeaturesAre) {
  const TaskData data = test::task_of(1);
  const auto measured = [&](const std::string& attention, int64_t examples) {
    const Problem problem = small_problem(attention, data);
    Generator noise(3);
    int64_t told = 0;
    const NoiseStatistics found = noise_statistics(*problem.split(Split::test), problem, Device::cpu(), examples, 20,
                                                   noise, [&](int64_t done) { told = done; });
    EXPECT_EQ(told, found.examples);
    return found;
  };
  const NoiseStatistics none = measured("softmax", 1000);
  EXPECT_EQ(none.examples, 40);
  EXPECT_EQ(none.relative_deviation, 0);
  EXPECT_EQ(none.inconsistency, 0);
  EXPECT_EQ(none.gain, 1);
  EXPECT_EQ(none.accuracy, none.voting_accuracy);
  EXPECT_NEAR(none.accuracy_deviation, 0, 1e-12);
  const Problem problem = small_problem("softmax", data);
  Learner learner(test::options_of(8), test::adamw(), small_problem("softmax", data));
  EXPECT_NEAR(none.accuracy, test::metric(learner, "accuracy"), 1e-12);
  const NoiseStatistics some = measured("performer", 13);  // not whole batches of 8
  EXPECT_EQ(some.examples, 13);
  ASSERT_EQ(some.each.size(), 13U);
  ExampleNoise mean;
  double votes = 0;
  for (const ExampleNoise& one : some.each) {
    mean.accuracy += one.accuracy / 13;
    mean.inconsistency += one.inconsistency / 13;
    mean.relative_deviation += one.relative_deviation / 13;
    votes += one.voted_right ? 1.0 / 13 : 0;
  }
  EXPECT_NEAR(mean.accuracy, some.accuracy, 1e-12);
  EXPECT_NEAR(mean.inconsistency, some.inconsistency, 1e-12);
  EXPECT_NEAR(mean.relative_deviation, some.relative_deviation, 1e-9 * some.relative_deviation);
  EXPECT_GT(some.relative_deviation, 0);
  EXPECT_NEAR(votes, some.voting_accuracy, 1e-12);
  EXPECT_NEAR(votes, some.gain * some.accuracy, 1e-12);
}

TEST(Noise, R2IsTheSquaredCorrelation) {
  EXPECT_NEAR(r_squared({1, 2, 3, 4}, {2, 4, 6, 8}), 1, 1e-12);
  EXPECT_NEAR(r_squared({1, 2, 3, 4}, {-2, -4, -6, -8}), 1, 1e-12);
  EXPECT_NEAR(r_squared({1, 0, -1, 0}, {0, 1, 0, -1}), 0, 1e-12);
  EXPECT_TRUE(std::isnan(r_squared({1}, {2})));
}

// For ten texts that are sorted by class, a sample of four contains both classes.
TEST(Subset, IsSpreadOverTheWhole) {
  const auto sorted = std::make_shared<PackedDataset<uint8_t>>(
      "sorted", std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
      std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
  const auto texts_of = [&](int64_t count) {
    const std::shared_ptr<const Dataset> sample = spread_sample(sorted, count);
    std::vector<int64_t> texts;
    for (int64_t i = 0; i < sample->size(); ++i) {
      int64_t id = -1;
      sample->copy_tokens(i, 0, {&id, static_cast<size_t>(sample->length(i, 0))});
      EXPECT_EQ(sample->label(i), id / 5);
      texts.push_back(id);
    }
    return texts;
  };
  EXPECT_EQ(texts_of(4), (std::vector<int64_t>{0, 2, 5, 7}));
  EXPECT_EQ(texts_of(10), texts_of(500));
  EXPECT_EQ(texts_of(500), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

std::string name_ending(const std::map<std::string, Tensor>& state, const std::string& end) {
  for (const auto& [name, tensor] : state) {
    if (name.ends_with(end)) return name;
  }
  ADD_FAILURE() << "no parameter ends with " << end;
  return "";
}

TEST(Covariances, GivePlantedEigenvaluesBack) {
  const int64_t dim = 4;
  const auto state_of = [](const char* attention, const char* version) {
    EncoderOptions options = test::encoder(attention);
    options.attention.mechanism.set_known({{"components", 2}, {"as", version}});
    Generator init(1);
    SequenceClassifier model(options, init);
    return model.state();
  };

  // For a diagonal S, the covariance has its squares.
  auto diagonal = state_of("gmm-prf", "paper");
  Tensor& scale = diagonal.at(name_ending(diagonal, ".scale"));
  ASSERT_EQ(scale.shape(), Shape({2, 2, 1, dim}));
  scale.fill_(1);
  scale.select(0, 1).select(0, 0).copy_(Tensor::from<float>({3, 0.5F, -2, 1}, {1, dim}));
  std::vector<CovarianceSpectrum> found = covariance_spectra(diagonal);
  ASSERT_EQ(found.size(), 4U);  // 2 heads of 2 Gaussians
  EXPECT_EQ(found[0].covariance, std::vector<double>(4, 1));
  EXPECT_EQ(found[2].head, 1);
  EXPECT_EQ(found[2].component, 0);
  EXPECT_EQ(found[2].covariance, (std::vector<double>{0.25, 1, 4, 9}));
  EXPECT_EQ(found[2].parameter, found[2].covariance);

  // A full S = Q diag(s) R^T with orthogonal Q, R.
  Generator generator(5);
  const Tensor Q = qr(normal({dim, dim}, generator)).q;
  const Tensor R = qr(normal({dim, dim}, generator)).q;
  const Tensor s = Tensor::from<float>({0.1F, 0.7F, 1.5F, 2}, {1, dim});
  auto full = state_of("gmm-rks", "paper");
  full.at(name_ending(full, ".scale")).select(0, 0).select(0, 1).copy_(matmul(Q * s, R));
  found = covariance_spectra(full);
  const std::vector<double> squares = {0.01, 0.49, 2.25, 4};
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(found[1].covariance[k], squares[k], 1e-5);

  // As released: exp(sigma / 2) n for gmm-prf, whose numbers in the paper are sigma^2; sigma^T n for gmm-rks.
  auto of_exp = state_of("gmm-prf", "released");
  of_exp.at(name_ending(of_exp, ".sigma")).select(0, 0).copy_(Tensor::from<float>({0, -1, 0.5F, 2}, {dim}));
  found = covariance_spectra(of_exp);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NEAR(found[0].covariance.front(), std::exp(-1.0), 1e-6);
  EXPECT_NEAR(found[0].covariance.back(), std::exp(2.0), 1e-6);
  EXPECT_EQ(found[0].parameter, (std::vector<double>{0, 0.25, 1, 4}));
  auto of_matrix = state_of("gmm-rks", "released");
  of_matrix.at(name_ending(of_matrix, ".sigma")).select(0, 1).copy_(matmul(Q * s, R));
  found = covariance_spectra(of_matrix);
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(found[1].covariance[k], squares[k], 1e-5);

  EXPECT_TRUE(covariance_spectra(state_of("performer", "paper")).empty());
}

TEST(SingularValues, GivePlantedOnesBack) {
  // Two heads of 2 columns, side by side the matrix U diag(s) V^T with s = 4, 2, 1, 0.
  const int64_t length = 6;
  Generator generator(2);
  const Tensor U = qr(normal({length, 4}, generator, 0, 1, DType::f64)).q;
  const Tensor V = qr(normal({4, 4}, generator, 0, 1, DType::f64)).q;
  const Tensor A = matmul(U * Tensor::from<double>({4, 2, 1, 0}, {1, 4}), V);  // (6, 4)
  const Tensor O = A.view({1, length, 2, 2}).transpose(1, 2).contiguous();     // (1, 2, 6, 2)
  const SingularValues found = singular_values(O, {});
  ASSERT_EQ(found.values.size(), 4U);
  const std::vector<double> planted = {1, 0.5, 0.25, 0};
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(found.values[k], planted[k], 1e-12);
  double entropy = 0;
  for (const double p : {4 / 7.0, 2 / 7.0, 1 / 7.0}) entropy -= p * std::log(p);
  EXPECT_NEAR(found.effective_rank, std::exp(entropy), 1e-9);

  // Padding does not count, nor does a sequence of only padding.
  Tensor padded = Tensor::full({2, 2, length + 3, 2}, 7, DType::f64);
  padded.slice(0, 0, 1).slice(2, 0, length).copy_(O);
  Tensor mask = Tensor::zeros({2, length + 3}, DType::boolean);
  mask.slice(0, 0, 1).slice(1, 0, length).fill_(1);
  const SingularValues same = singular_values(padded, mask);
  EXPECT_EQ(same.sequences, 1);
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(same.values[k], planted[k], 1e-12);
}

TEST(Instability, OfALinearModelIsKnown) {
  // y = w x + b with x = (2, 1). All gradients have one sign, so Adam moves w_1, w_2 and b by r each, and y by
  // 2 r + r + r:  tau = (4 r)^2 / (3 r^2).
  TableSplit rows;
  rows.features = Tensor::empty({8, 2});
  rows.labels = Tensor::full({8}, 3);
  for (int64_t i = 0; i < 8; ++i) rows.features.select(0, i).copy_(Tensor::from<float>({2, 1}, {2}));
  const RunOptions run = test::options_of(1);
  Problem problem = test::of_numbers(run, rows);
  const std::shared_ptr<Module> model = problem.model;
  const Problem again = test::of_numbers(run, rows);
  const auto forward = problem.forward;
  Learner learner(run, test::adamw(1e-3), std::move(problem));
  const std::vector<double> scores = instability_scores(
      learner, *model, *again.train,
      [&](const Examples& x, Context& context) { return forward(x, context).front().value(); }, Device::cpu(), 3, 1);
  ASSERT_EQ(scores.size(), 3U);
  for (const double tau : scores) EXPECT_NEAR(tau, 16.0 / 3, 0.01);
}

// The running means of a generator's batch norm move by the same amount at any rate.
TEST(Instability, HardlyDependsOnTheRate) {
  const TaskData data = test::task_of(1);
  const RunOptions run = test::options_of(16);
  const auto tau = [&](double rate) {
    Problem problem = sequence::classification(run, test::encoder("generative-prf"), data, test::judged_by_accuracy());
    const std::shared_ptr<Module> model = problem.model;
    const Problem again =
        sequence::classification(run, test::encoder("generative-prf"), data, test::judged_by_accuracy());
    const auto forward = problem.forward;
    Learner learner(run, test::adamw(rate), std::move(problem));
    return instability_scores(
        learner, *model, *again.train,
        [&](const Examples& x, Context& context) { return forward(x, context).front().value(); }, Device::cpu(), 3, 1);
  };
  const std::vector<double> fast = tau(1e-3), slow = tau(1e-5);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(std::log2(slow[i] / fast[i]), 0, 2) << i;
}

TEST(Instability, PaddingCountsAsZeros) {
  const Tensor x = Tensor::from<float>({1, 2, NAN, NAN, 5, 6}, {1, 3, 2});
  const Tensor mask = Tensor::from<int64_t>({1, 0, 1}, {1, 3}).cast(DType::boolean);
  EXPECT_EQ(zero_padding(x, mask).to_vector<float>(), (std::vector<float>{1, 2, 0, 0, 5, 6}));
  EXPECT_EQ(zero_padding(x, {}).slice(1, 2, 3).to_vector<float>(), (std::vector<float>{5, 6}));
}

TEST(Instability, RatiosLeaveOutWhatIsNoNumber) {
  EXPECT_NEAR(mean_ratio({2, NAN, 3}, {1, 1, 2}), 1.75, 1e-15);
  EXPECT_TRUE(std::isnan(mean_ratio({NAN}, {1})));
}

TEST(Analysis, OfAFinishedRunIsWrittenBesideItsResults) {
  const test::TemporaryFolder folder;
  const auto lra = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), BOCHNER_LRA);
    return test::Process(arguments, folder.path()).wait();
  };
  for (const std::string attention : {"softmax", "gmm-prf"}) {
    const test::Ended trained =
        lra({"--random-data", "--task=pathfinder", "--model.layers=2", "--model.dim=8", "--model.hidden=8",
             attention == "softmax" ? "--seed=1" : "--model.features=4", "--model.pooling=cls", "--batch=4",
             "--steps=3", "--threads=1", "--quiet", "--attention=" + attention, "--out=" + attention});
    ASSERT_EQ(trained.code, 0) << trained.err;
    const test::Ended ended = lra({"--analyse=" + attention, "--analysis.evaluations=5", "--analysis.updates=3"});
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto json = nlohmann::json::parse(test::contents(folder / (attention + "/analysis.json")));
    EXPECT_EQ(json["noise"]["evaluations"], 5);
    EXPECT_EQ(json["noise"]["examples"], 4);
    EXPECT_EQ(json["attention_output"].size(), 2U);
    EXPECT_EQ(json["attention_output"][0]["values"][0], 1.0);
    EXPECT_EQ(json["instability"]["scores"].size(), 3U);
    if (attention == "softmax") {
      EXPECT_EQ(json["noise"]["RSD"], 0.0);
      EXPECT_EQ(json["instability"]["ratio"], 1.0);  // to itself
      EXPECT_TRUE(json["covariances"].empty());
    } else {
      EXPECT_GT(json["noise"]["RSD"].get<double>(), 0.0);
      EXPECT_EQ(json["covariances"].size(), 2U * 2 * 2);  // layers, heads, components
    }
    const std::string page = test::contents(folder / (attention + "/analysis.html"));
    EXPECT_NE(page.find("Singular values"), std::string::npos);
    EXPECT_NE(page.find(">PI against accuracy<"), std::string::npos);
    // If nothing is drawn, nothing deviates and there is no mixture.
    for (const char* title : {">PI against RSD<", ">eigenvalue of the covariance<"}) {
      EXPECT_EQ(page.find(title) != std::string::npos, attention == "gmm-prf") << title;
    }
    const auto result = nlohmann::json::parse(test::contents(folder / (attention + "/results.json")));
    EXPECT_EQ(json["run"], result["run"]);  // which run it belongs to; results.json itself stays as it was
    EXPECT_EQ(json["noise"].contains("r2_PI_accuracy"), true);
  }
  // For pairs, whose two sequences go through one trunk.
  const test::Ended pairs =
      lra({"--task=films", "--random-data", "--films.max-length=20", "--model.layers=1", "--model.dim=8",
           "--model.hidden=8", "--batch=4", "--steps=3", "--threads=1", "--attention=linear-elu", "--out=pairs"});
  ASSERT_EQ(pairs.code, 0) << pairs.err;
  ASSERT_EQ(lra({"--analyse=pairs", "--analysis.evaluations=2", "--analysis.updates=3"}).code, 0);
  const auto of_pairs = nlohmann::json::parse(test::contents(folder / "pairs/analysis.json"));
  EXPECT_EQ(of_pairs["instability"]["scores"].size(), 3U);
  EXPECT_GT(of_pairs["instability"]["scores"][2].get<double>(), 0.0);
  std::filesystem::remove(folder / "pairs/results.json");
  const test::Ended unfinished = lra({"--analyse=pairs", "--analysis.evaluations=2", "--analysis.updates=3"});
  EXPECT_EQ(unfinished.code, 0);
  EXPECT_NE(unfinished.err.find("warning: --analyse: the run pairs is not finished"), std::string::npos)
      << unfinished.err;
  const test::Ended nothing = lra({"--analyse=nothing"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("--analyse: there is no run in nothing"), std::string::npos) << nothing.err;
  EXPECT_NE(lra({"--analyse=softmax", "--preset=quick"}).err.find("leave out --preset"), std::string::npos);
}

// The first test examples are used, not the shortest, whatever batches the run had; updates use the same batches as the
// run.
TEST(Analysis, AsksNoExamplesBecauseTheyAreShort) {
  const test::TemporaryFolder folder;
  const auto analysed = [&](const std::string& grouped) {
    const test::Ended trained =
        test::run(folder, {BOCHNER_LRA, "--listops.min-tokens=5", "--listops.max-tokens=30", "--listops.max-length=30",
                           "--listops.train-examples=40", "--listops.valid-examples=8", "--listops.test-examples=30",
                           "--model.layers=1", "--model.dim=8", "--model.hidden=8", "--attention=softmax", "--batch=4",
                           "--steps=0", "--threads=1", "--group-by-length=" + grouped, "--out=" + grouped});
    EXPECT_EQ(trained.code, 0) << trained.err;
    const test::Ended ended =
        test::run(folder, {BOCHNER_LRA, "--analyse=" + grouped, "--analysis.evaluations=2", "--analysis.updates=3"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return nlohmann::json::parse(test::contents(folder / (grouped + "/analysis.json")));
  };
  const auto mixed = analysed("false");
  const auto grouped = analysed("true");
  EXPECT_EQ(mixed["attention_output"][0]["sequences"], 4);
  for (const char* part : {"noise", "attention_output"}) EXPECT_EQ(mixed[part], grouped[part]) << part;
  EXPECT_NE(mixed["instability"], grouped["instability"]);
}

}  // namespace
}  // namespace bochner
