// Sums over the positions that count: gradients at the classifier against hand computations, and the program as a
// person starts it.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "datasets/sparsity/sparsity.h"
#include "engine/ops/matmul.h"
#include "experiments/common/process/arguments.h"
#include "experiments/common/report/spread.h"
#include "experiments/common/run/results.h"
#include "experiments/learners/sequence/config.h"
#include "experiments/learners/sequence/unit_gradients.h"
#include "experiments/sparsity/figures.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::Process;
using test::TemporaryFolder;

TEST(GradientStatistics, AreWorkedOutByHand) {
  // Two repetitions of two examples at two units. Unit 0: |g| is 1, 3, 3, 5, of mean 3 and variance
  // (4 + 0 + 0 + 4) / 4; its examples are (1, 3) and (-3, 5) over the repetitions, of variances 1 and 16. Unit 1: all
  // 2, no deviation of |g|; (2, 2) and (-2, 2), of variances 0 and 4.
  const Tensor g = Tensor::from<float>({1, 2, -3, -2, 3, 2, 5, 2}, {2, 2, 2});
  const sequence::GradientStatistics found = sequence::gradient_statistics(g);
  EXPECT_NEAR(found.absolute_mean, (3.0 + 2.0) / 2, 1e-12);
  EXPECT_NEAR(found.deviation, (std::sqrt(2.0) + 0.0) / 2, 1e-12);
  EXPECT_NEAR(found.noise, (std::sqrt(17.0 / 2) + std::sqrt(4.0 / 2)) / 2, 1e-12);
  EXPECT_THROW(sequence::gradient_statistics(Tensor::zeros({2, 3})), Error);
  EXPECT_THROW(sequence::gradient_statistics(Tensor::zeros({0, 3, 2})), Error);
}

/// The options of a model come after that of its attention.
struct Chosen {
  std::string attention = "softmax";
  sequence::ModelConfig model;
  void fields(Fields& f) {
    f("attention", attention, "attention mechanism");
    model.fields(f);
  }
};

TEST(SequenceConfig, TellsTheModelWhatItIsTold) {
  Chosen chosen;
  sequence::ModelConfig& config = chosen.model;
  Fields fields = Fields::of(chosen);
  const auto told = [&] { return encoder_options(config, "softmax", sparsity::task({.length = 30})); };
  EXPECT_EQ(told().activation, Activation::gelu);
  EXPECT_EQ(told().norm_eps, 1e-5);
  const int64_t vocabulary = told().vocabulary;
  fields.at("activation").assign("gelu-tanh");
  fields.at("norm-eps").assign("1e-6");
  fields.at("mask-token").assign("true");
  fields.at("convolution").assign("7");
  EXPECT_EQ(told().attention.convolution, 7);
  EXPECT_EQ(told().activation, Activation::gelu_tanh);
  EXPECT_EQ(told().norm_eps, 1e-6);
  EXPECT_EQ(told().vocabulary, vocabulary + 1);
}

TEST(SequenceConfig, TakesGreyLevelsForNumbersWhereAsked) {
  const Task images{.name = "image", .classes = 2, .vocabulary = 5, .max_length = 9, .image_width = 3};
  Chosen chosen;
  sequence::ModelConfig& config = chosen.model;
  Fields fields = Fields::of(chosen);
  EXPECT_FALSE(encoder_options(config, "softmax", images).codes.defined());
  fields.at("pixels").assign("intensity");
  const auto codes = [&] { return encoder_options(config, "softmax", images).codes; };
  EXPECT_EQ(codes().shape(), (Shape{5, 2}));
  EXPECT_EQ(codes().to_vector<float>(), (std::vector<float>{1, -1, 1, -0.5, 1, 0, 1, 0.5, 1, 1}));
  fields.at("mask-token").assign("true");
  EXPECT_EQ(codes().shape(), (Shape{6, 3}));
  EXPECT_EQ(codes().slice(0, 4, 6).to_vector<float>(), (std::vector<float>{1, 1, 0, 0, 0, 1}));
  EXPECT_THROW(encoder_options(config, "softmax", sparsity::task({.length = 30})), Error);
}

TEST(SequenceConfig, TellsMechanismsWhatItIsTold) {
  Chosen chosen;
  sequence::ModelConfig& config = chosen.model;
  Fields fields = Fields::of(chosen);
  fields.at("features").assign("24");
  fields.at("mechanism.block").assign("7");
  fields.at("mechanism.coupling").assign("givens");
  const auto told = [&](const std::string& mechanism) {
    return encoder_options(config, mechanism, sparsity::task({.length = 30})).attention.mechanism;
  };
  EXPECT_EQ(told("local").text("block"), "7");
  EXPECT_FALSE(told("local").has("features"));  // this is not a mistake: another mechanism has them
  EXPECT_EQ(told("performer").text("features"), "24");
  EXPECT_EQ(told("performer").text("coupling"), "givens");
  EXPECT_EQ(told("gmm-prf").text("features"), "24");
  EXPECT_EQ(told("gmm-prf").text("redraw"), fields.at("redraw").text());
}

SequenceClassifier small_model(const std::string& attention, bool redraw) {
  sequence::ModelConfig config;
  config.layers = 1;
  config.dim = 8;
  config.classifier = 6;
  config.pooling = EncoderOptions::Pooling::first;
  config.init = LinearOptions::Init::xavier;
  config.dropout = 0.5;  // measuring leaves it out
  config.mechanism.set({"features", 4}).set({"redraw-in-evaluation", redraw});
  EncoderOptions options = encoder_options(config, attention, sparsity::task({.length = 30}));
  options.codes = sparsity::codes();
  Generator init(3);
  return {options, init};
}

Batch some_pairs() {
  const TaskData data = sparsity::load_task({.relevant = 0.5, .length = 30, .train = 1, .valid = 12, .test = 1});
  return Loader(data.valid, {.batch_size = 12, .shuffle = false, .prefetch = 0}).next();
}

TEST(UnitGradients, AreThoseOfEachExampleAlone) {
  SequenceClassifier model = small_model("softmax", false);
  const Batch batch = some_pairs();
  Generator noise(1);
  const Tensor g = sequence::unit_gradients(model, batch, 2, noise);
  ASSERT_EQ(g.shape(), (Shape{2, 12, 6}));

  // g_nj = sum_c W_cj (p_nc - [c = y_n])
  Context context{noise, false};
  const Tensor h = model.units(batch.ids, batch.mask, context).value();
  const std::vector<double> scores = model.scores(Variable(h)).value().to_vector<double>();
  const std::vector<double> W = model.state().at("classifier.classes.weight").to_vector<double>();
  const std::vector<int64_t> y = batch.labels.to_vector<int64_t>();
  const std::vector<double> found = g.to_vector<double>();
  for (size_t n = 0; n < 12; ++n) {
    double sum = 0;
    for (size_t c = 0; c < 9; ++c) sum += std::exp(scores[n * 9 + c]);
    for (size_t j = 0; j < 6; ++j) {
      double expected = 0;
      for (size_t c = 0; c < 9; ++c) {
        const double p = std::exp(scores[n * 9 + c]) / sum;
        expected += W[c * 6 + j] * (p - (y[n] == static_cast<int64_t>(c) ? 1 : 0));
      }
      EXPECT_NEAR(found[n * 6 + j], expected, 1e-6);
      EXPECT_EQ(found[(12 + n) * 6 + j], found[n * 6 + j]);  // softmax has no noise
    }
  }
  EXPECT_EQ(sequence::gradient_statistics(g).noise, 0);
}

TEST(UnitGradients, FeelTheNoiseOfFeaturesThatAreDrawnAnew) {
  const Batch batch = some_pairs();
  const auto noise_of = [&](bool redraw) {
    SequenceClassifier model = small_model("gmm-prf", redraw);
    Generator noise(1);
    return sequence::gradient_statistics(sequence::unit_gradients(model, batch, 5, noise)).noise;
  };
  EXPECT_EQ(noise_of(false), 0);
  EXPECT_GT(noise_of(true), 0);
}

/// For one seed: what two evaluations found.
RunRecord record_of_seed(uint64_t seed, double first, double second, double gradient) {
  RunRecord run;
  run.task = "0.5";
  run.attention = "gmm-rks";
  run.seed = seed;
  run.curves = {{10, "valid", {{"accuracy", first}, {sparsity::kGradientMean, gradient}}},
                {20, "valid", {{"accuracy", second}, {sparsity::kGradientMean, 2 * gradient}}}};
  run.derived = sparsity::crossings(run);
  return run;
}

TEST(SparsityFigures, AreMeansOverSeeds) {
  const PaperTable papers = PaperTable::parse("source,protocol,task,attention,metric,value,deviation\n");
  const auto drawn = [&](const std::vector<RunRecord>& runs) { return sparsity::figures(runs, papers); };
  const auto both = drawn({record_of_seed(1, 0.125, 0.25, 1), record_of_seed(2, 0.375, 0.75, 4)});
  const auto mean = drawn({record_of_seed(1, 0.25, 0.5, 2.5)});
  ASSERT_EQ(both.size(), 4U);
  EXPECT_EQ(both[0].html, mean[0].html);  // accuracies
  EXPECT_EQ(both[2].html, mean[2].html);  // gradients
  // 20 % were reached at step 20 with the gradient 2, and at step 10 with 4.
  EXPECT_NE(both[1].html.find("<td>" + mean_text({20, 10})), std::string::npos) << both[1].html;
  EXPECT_NE(both[1].html.find("<td>" + mean_text({2, 4})), std::string::npos) << both[1].html;
}

std::vector<std::string> sparsity_command(const std::vector<std::string>& more) {
  std::vector<std::string> command = {BOCHNER_SPARSITY,
                                      "--pairs.length=20",
                                      "--pairs.train-examples=300",
                                      "--pairs.valid-examples=50",
                                      "--pairs.test-examples=30",
                                      "--model.layers=1",
                                      "--model.dim=16",
                                      "--model.heads=2",
                                      "--model.hidden=16",
                                      "--gradients.examples=10",
                                      "--gradients.repetitions=4",
                                      "--optim.evaluate-every=10",
                                      "--optim.rate=5e-3",
                                      "--batch=16",
                                      "--steps=40",
                                      "--threads=1"};
  if (argument(more, "attention") != "softmax") {
    command.insert(command.end(), {"--model.features=4", "--model.redraw=7"});
  }
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

Ended run_sparsity(const TemporaryFolder& folder, const std::vector<std::string>& more) {
  return Process(sparsity_command(more), folder.path()).wait();
}

TEST(SparsityProgram, RunsEveryAttentionOnEverySparsityAndReportsBoth) {
  const TemporaryFolder folder;
  const Ended ended = run_sparsity(folder, {"--task=0.1,0.9", "--attention=gmm-rks,gmm-prf,softmax", "--out=all"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("0.9, gmm-prf"), std::string::npos) << ended.out;
  const std::string report = contents(folder / "all/report.html");
  for (const char* part : {"KL Fig. 6", "KL Table 14", "<td>gmm-rks, 0.1</td>", ">gmm-prf 0.9</text>"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part;
  }
  for (const std::string task : {"0.1", "0.9"}) {
    for (const std::string attention : {"gmm-rks", "gmm-prf", "softmax"}) {
      const RunRecord record = read_run(folder / ("all/" + task + "/" + attention));
      EXPECT_EQ(record.task, task);
      EXPECT_EQ(record.attention, attention);
      // Derived values are those of the first evaluation that reached 20 %.
      const double* const step = find_metric(record.derived, "step at 20");
      for (const MetricsLine& line : record.curves) {
        if (line.split != "valid") continue;
        const double* const noise = find_metric(line.metrics, "gradient-noise");
        ASSERT_NE(noise, nullptr);
        EXPECT_EQ(*noise > 0, attention != "softmax") << attention;
        if (*find_metric(line.metrics, "accuracy") < 0.2) continue;
        ASSERT_NE(step, nullptr);
        EXPECT_EQ(*step, line.step);
        EXPECT_EQ(*find_metric(record.derived, "gradient-mean at 20"), *find_metric(line.metrics, "gradient-mean"));
        break;
      }
    }
  }
  EXPECT_EQ(run_sparsity(folder, {"--task=0.1,0.9", "--attention=softmax", "--out=all"}).code,
            2);  // already contains runs
  const Ended again =
      run_sparsity(folder, {"--task=0.1,0.5,0.9", "--attention=gmm-rks,softmax", "--out=all", "--resume"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("all/0.9/softmax is finished already"), std::string::npos) << again.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "all/0.5/softmax/results.json"));
}

TEST(SparsityProgram, ARunIsNamedAfterItsShare) {
  const TemporaryFolder folder;
  const auto named = [&](const std::string& option) {
    const Ended ended = run_sparsity(folder, {option, "--attention=softmax", "--steps=1"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_NE(ended.err.find("of which a share of 0.3 counts"), std::string::npos) << ended.err;
  };
  named("--pairs.relevant=0.3");
  named("--task=0.3");
  const RunRecord one = read_run(folder / "runs/sparsity/0.3-softmax-seed1");
  const RunRecord two = read_run(folder / "runs/sparsity/0.3-softmax-seed1-2");
  EXPECT_EQ(one.task, "0.3");
  EXPECT_EQ(two.task, "0.3");
  EXPECT_EQ(one.result.test, two.result.test);
  const Ended again =
      run_sparsity(folder, {"--resume", "--out=runs/sparsity/0.3-softmax-seed1", "--attention=softmax", "--steps=1"});
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST(SparsityProgram, DependsOnTheSeedNotOnThreadsAndGoesOnWhereItWasCut) {
  const TemporaryFolder folder;
  const auto record_of = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--attention=gmm-prf", "--task=0.5", "--out=" + out, "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run_sparsity(folder, arguments);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return read_run(folder / out);
  };
  const RunRecord one = record_of("one", {});
  const RunRecord two = record_of("two", {"--threads=2"});
  EXPECT_EQ(one.result.test, two.result.test);
  EXPECT_EQ(one.result.valid, two.result.valid);
  EXPECT_EQ(one.derived, two.derived);
  EXPECT_NE(one.result.test, record_of("other", {"--seed=2"}).result.test);

  Process cut(sparsity_command({"--attention=gmm-prf", "--task=0.5", "--out=cut", "--quiet"}), folder.path());
  ASSERT_TRUE(cut.wait_for(folder / "cut/metrics.jsonl", "valid"));
  cut.kill(SIGINT);
  cut.wait();
  EXPECT_EQ(record_of("cut", {"--resume"}).result.test, one.result.test);
}

TEST(SparsityProgram, LearnsToSum) {
  const TemporaryFolder folder;
  const Ended ended = run_sparsity(
      folder, {"--pairs.length=10", "--pairs.train-examples=4000", "--model.dropout=0", "--task=0.5",
               "--attention=softmax", "--steps=400", "--batch=64", "--optim.evaluate-every=200", "--out=run"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto results = nlohmann::json::parse(contents(folder / "run/results.json"));
  EXPECT_GT(results["metrics"]["test"]["accuracy"], 0.5);  // guessing: 1 / 9
  EXPECT_NEAR(results["baselines"]["majority class"]["accuracy"].get<double>(), 1.0 / 9, 0.03);
}

TEST(SparsityProgram, MistakesAreToldInOneLine) {
  const TemporaryFolder folder;
  const auto expect_mistake = [&](const std::vector<std::string>& arguments, const std::string& telling) {
    const Ended ended = run_sparsity(folder, arguments);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_NE(ended.err.find(telling), std::string::npos) << ended.err;
    const size_t begin = ended.err.find("error: ");
    ASSERT_NE(begin, std::string::npos) << ended.err;
    EXPECT_EQ(ended.err.find('\n', begin), ended.err.size() - 1) << ended.err;
  };
  expect_mistake({"--task=2"}, "alid: 0.1, 0.5, 0.9, or a number above 0 and below 1");
  expect_mistake({"--task=0.1,2"}, "alid: 0.1, 0.5, 0.9, or a number above 0 and below 1");
  expect_mistake({"--task=0.1", "--pairs.relevant=0.3"}, "--pairs.relevant=0.3: --task=0.1 is another share");
  expect_mistake({"--task=0.1,"}, "a comma without a name");
  expect_mistake({"--task=0.1,0.1"}, "--task: '0.1' stands twice");
  expect_mistake({"--attention=gmm-rsk"}, "did you mean 'gmm-rks'?");
  expect_mistake({"--pairs.lenght=5"}, "did you mean --pairs.length?");
  expect_mistake({"--pairs.relevant=1"}, "below 1");
  expect_mistake({"--pairs.relevant=nan"}, "pairs.relevant");
  expect_mistake({"--pairs.length=3"}, "sequences of 3 have no sum of 4; take longer ones");
  expect_mistake({"--pairs.train-examples=999999999"}, "at most 2^33 positions");
  expect_mistake({"--pairs.train-examples=8", "--out=small"}, "choose a smaller --batch");
  expect_mistake({"--model.heads=3"}, "3 heads do not divide the model size 16");
  expect_mistake({"--model.features=0"}, "at least 1");
  expect_mistake({"--gradients.repetitions=0"}, "at least 1");
  expect_mistake({"--device=cuda:99"}, "cuda");
  expect_mistake({"--preset=quik"}, "did you mean 'quick'?");
  expect_mistake({"--resume", "--out=nothing"}, "there is no run in nothing");
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
}

TEST(SparsityProgram, PresetsStateEverySetting) {
  const TemporaryFolder folder;
  for (const std::string preset : {"quick", "kl"}) {
    const std::string text =
        contents(std::string(BOCHNER_SOURCE_DIR) + "/experiments/sparsity/presets/" + preset + ".ini");
    const Ended ended = Process({BOCHNER_SPARSITY, "--dump-config"}, folder.path()).wait();
    ASSERT_EQ(ended.code, 0) << ended.err;
    std::istringstream lines(ended.out.substr(ended.out.find("\n[")));  // the groups: pairs, model, optim, gradients
    std::string line;
    while (std::getline(lines, line)) {
      const size_t end = line.find(" = ");
      if (end == std::string::npos) continue;
      const std::string name = line.substr(0, end + 2);             // a value may be empty
      if (name == "relevant =" || name == "recompute =") continue;  // the task's own; does not change results
      EXPECT_NE(text.find("\n" + name), std::string::npos) << preset << ": " << name;
    }
  }
}

}  // namespace
}  // namespace bochner
