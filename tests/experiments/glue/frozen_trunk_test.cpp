// A frozen trunk runs once over each example, which changes numbers only by rounding, and only a frozen one does so.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/glue/problem.h"
#include "tests/experiments/process.h"
#include "tests/experiments/tiny_bert.h"

namespace bochner {
namespace {

using nlohmann::json;
using test::contents;
using test::Ended;
using test::Process;
using test::put;
using test::TemporaryFolder;

/// A folder with `model` and RTE of 12 rows of different lengths.
class FrozenTrunk : public ::testing::Test {
 protected:
  FrozenTrunk() {
    test::save_tiny_bert(folder_ / "model");
    const std::filesystem::path rte = folder_ / "data/glue/RTE";
    std::filesystem::create_directories(rte);
    put(rte / "train.tsv", pairs(12, true));
    put(rte / "dev.tsv", pairs(6, true));
    put(rte / "test.tsv", pairs(5, false));
  }

  static std::string pairs(int rows, bool labels) {
    std::string text = std::string("index\tsentence1\tsentence2") + (labels ? "\tlabel" : "") + "\n";
    for (int i = 0; i < rows; ++i) {
      std::string words = "a";
      for (int k = 0; k < i % 5; ++k) words += " b c";
      text += fmt::format("{}\t{}\t{} x\t{}\n", i, words, i, i % 3 == 0 ? "entailment" : "not_entailment");
      if (!labels) text.replace(text.rfind('\t'), std::string::npos, "\n");
    }
    return text;
  }

  /// As the program makes it. With 12 rows in batches of 4, an epoch has 3 steps.
  glue::Config config(const std::string& method, double dropout, int64_t steps = 12) const {
    glue::Config config;
    config.run.task = "rte";
    config.run.data = (folder_ / "data").string();
    config.run.batch = 4;
    config.run.steps = steps;
    config.text->pretrained = (folder_ / "model").string();
    config.text->max_length = 16;
    config.text->partial = true;
    config.model.method = method;
    config.model.top = 1;
    config.model.dropout = dropout;
    return config;
  }
  static Problem problem(
      const glue::Config& config, const Say& say = [](const std::string&) {}) {
    const auto silent = [](const std::string&) {};
    const glue::GlueTask& task = task_named(config.tasks, "rte");
    const auto texts = std::make_shared<const glue::Texts>(task.load(config.run, {silent, silent}));
    return glue::problem_of(config, task, texts, std::make_shared<TrunkStates>(say), silent).problem;
  }
  static std::unique_ptr<Learner> learner(const glue::Config& config) {
    OptimConfig optim;
    optim.rate = 0.05;
    RunOptions run = config.run;
    run.steps = 12;
    return std::make_unique<Learner>(run, optim, problem(config));
  }

  Ended run(std::vector<std::string> arguments) const {
    const std::vector<std::string> small = {BOCHNER_GLUE,
                                            "--task=rte",
                                            "--partial",
                                            "--batch=4",
                                            "--pretrained=model",
                                            "--max-length=16",
                                            "--model.method=snnk-pooler",
                                            "--model.dropout=0",
                                            "--threads=1"};
    arguments.insert(arguments.begin(), small.begin(), small.end());
    return Process(arguments, folder_.path()).wait();
  }
  json metrics(const std::string& name) const {
    return json::parse(contents(folder_ / name / "results.json"))["metrics"];
  }

  TemporaryFolder folder_;
};

TEST_F(FrozenTrunk, GivesTheLossesOfATrunkThatRunsInEachStep) {
  for (const char* method : {"linear-probe", "pooler", "snnk-pooler", "bundle"}) {
    const auto once = learner(config(method, 0));
    const auto each = learner(config(method, 0, 3));  // one epoch, so nothing is kept
    for (int64_t step = 0; step < 12; ++step) {
      EXPECT_NEAR(once->step(step).loss.item(), each->step(step).loss.item(), 1e-6) << method << step;
      if (step % 3 != 2) continue;
      const Metrics ours = once->evaluate(Split::valid);
      const Metrics theirs = each->evaluate(Split::valid);
      for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i].second, theirs[i].second, 1e-6) << method << step;
    }
  }
}

TEST_F(FrozenTrunk, OnlyTrainingOfTheHeadAloneWithoutDropoutTakesStatesFromMemory) {
  const auto has_states = [](const glue::Config& config) {
    Problem made = problem(config);
    return std::pair(made.train->next().has("states"), made.split(Split::valid)->next().has("states"));
  };
  for (const char* method : {"linear-probe", "pooler", "snnk-pooler", "bundle"}) {
    EXPECT_EQ(has_states(config(method, 0)), std::pair(true, true)) << method;
    EXPECT_EQ(has_states(config(method, 0.1)), std::pair(false, true)) << method;
    EXPECT_EQ(has_states(config(method, 0, 3)), std::pair(false, true)) << method;
    glue::Config other = config(method, 0);
    other.run.attention = "performer";
    EXPECT_EQ(has_states(other), std::pair(false, false)) << method;
  }
  for (const char* method : {"full", "bitfit", "lora", "adapter", "houlsby", "snnk-adapter", "uptrain"}) {
    EXPECT_EQ(has_states(config(method, 0)), std::pair(false, false)) << method;
  }
}

TEST_F(FrozenTrunk, RunsBeforeTheFirstStep) {
  std::string told;
  const glue::Config given = config("linear-probe", 0);
  Learner learner(given.run, {.rate = 0.05}, problem(given, [&](const std::string& line) { told += line; }));
  EXPECT_EQ(told, "");
  learner.prepare();
  EXPECT_NE(told.find("train: the frozen trunk runs once over 12 examples"), std::string::npos) << told;
  told.clear();
  learner.step(0);
  EXPECT_EQ(told, "");
}

TEST_F(FrozenTrunk, StatesAreThoseOfTheWeightsThatAreThere) {
  Problem made = problem(config("linear-probe", 0));
  const auto first = [&] {
    const Examples batch = made.train->next();
    EXPECT_EQ(batch.at("states").shape(), (Shape{4, 1, 8}));
    return batch.at("states").to_vector<float>();
  };
  const std::vector<float> before = first();
  EXPECT_NE(first(), before);
  made.train->go_to(0);
  EXPECT_EQ(first(), before);
  auto& model = dynamic_cast<PretrainedModel&>(*made.model);
  model.trunk_parameters().front()->value.fill_(0);  // as if a checkpoint with other weights had been read
  made.train->go_to(0);
  EXPECT_NE(first(), before);
  const size_t all = model.parameters().size();
  EXPECT_EQ(model.trunk_parameters().size(), all - 4);  // without weight and bias of pooler and classifier
}

TEST_F(FrozenTrunk, ARunIsContinuedBitForBitAndSeedsShareTheStates) {
  const auto steps = [&](const char* count, const char* out, const char* more) {
    return run({"--steps=" + std::string(count), "--optim.schedule=constant", "--optim.rate=0.01",
                "--optim.evaluate-every=1", "--out=" + std::string(out), more});
  };
  ASSERT_EQ(steps("14", "whole", "--seed=1").code, 0);
  ASSERT_EQ(steps("8", "parts", "--seed=1").code, 0);
  const Ended ended = steps("14", "parts", "--resume");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(metrics("whole"), metrics("parts"));
  const TensorMap parts = read_safetensors(folder_ / "parts/checkpoint-last").tensors;
  for (const auto& [name, tensor] : read_safetensors(folder_ / "whole/checkpoint-last").tensors) {
    EXPECT_EQ(tensor.to_vector<double>(), parts.at(name).to_vector<double>()) << name;
  }
  const Ended measured = Process({BOCHNER_GLUE, "--evaluate=whole"}, folder_.path()).wait();
  ASSERT_EQ(measured.code, 0) << measured.err;
  ASSERT_EQ(Process({BOCHNER_GLUE, "--predict=whole"}, folder_.path()).wait().code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "whole/RTE.tsv"));
  // One pass over each set, whatever the number of runs.
  const Ended seeds = run({"--steps=8", "--seeds=2", "--out=seeds"});
  ASSERT_EQ(seeds.code, 0) << seeds.err;
  for (const char* line : {"train: the frozen trunk runs once over 12 examples", "dev: the frozen trunk runs once"}) {
    const size_t found = seeds.err.find(line);
    ASSERT_NE(found, std::string::npos) << seeds.err;
    EXPECT_EQ(seeds.err.find(line, found + 1), std::string::npos) << seeds.err;
  }
  const Ended dropout = run({"--steps=8", "--model.dropout=0.1", "--out=dropout"});
  EXPECT_NE(dropout.err.find("the trunk is frozen, but dropout"), std::string::npos) << dropout.err;
}

TEST_F(FrozenTrunk, PartsOfABatchHaveTheirStates) {
  const auto loss = [&](const std::string& more) {
    const Ended ended = run({"--steps=8", "--optim.rate=0.01", "--out=parts" + more, more});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_NE(ended.err.find("train: the frozen trunk runs once"), std::string::npos) << ended.err;
    return metrics("parts" + more)["test"]["loss"].get<double>();
  };
  const double whole = loss("--seed=1");
  EXPECT_NEAR(loss("--accumulate=2"), whole, 1e-5);
  EXPECT_NEAR(loss("--shards=2"), whole, 1e-5);
}

}  // namespace
}  // namespace bochner
