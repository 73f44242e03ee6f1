// --seconds: training that ends by time, continues where it was stopped, and otherwise equals the run of as many steps.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/io/xxh3.h"
#include "experiments/common/run/results.h"
#include "experiments/common/run/state.h"
#include "experiments/common/run/trainer.h"
#include "tests/experiments/learner_problems.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::Ended;
using test::Process;
using test::run_toy;
using test::TemporaryFolder;
using test::toy;

const std::vector<std::string> kSlow = {"--steps=100000", "--model.pause-ms=4", "--evaluate-every=0", "--quiet"};

std::vector<std::string> slow(std::vector<std::string> more) {
  more.insert(more.begin(), kSlow.begin(), kSlow.end());
  return more;
}

/// A model whose preparation takes longer than all its steps.
class Prepared final : public Trainable {
 public:
  void prepare() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    prepared_ += 1;
  }
  StepResult step(int64_t) override {
    EXPECT_EQ(prepared_, 1);
    return {.loss = Tensor::scalar(1, DType::f64), .count = 1};
  }
  Metrics evaluate(Split) override { return {{"loss", 1}}; }
  void save_model(State& state) override { state.tensors["weight"] = Tensor::zeros({}, DType::f64); }
  void load_model(const State&) override {}
  void save_training(State&) override {}
  void load_training(const State&) override {}
  int64_t parameters() override { return 1; }

 private:
  int prepared_ = 0;
};

std::string place_of(const std::filesystem::path& run) {
  return xxh3_of(bytes_of(State::load(run / "checkpoint-last").tensors.at("place")));
}

std::vector<int64_t> evaluated_steps(const RunRecord& run) {
  std::vector<int64_t> steps;
  for (const MetricsLine& line : run.curves) {
    if (line.split == "valid") steps.push_back(line.step);
  }
  return steps;
}

TEST(Seconds, EndTrainingAndAreRecorded) {
  const TemporaryFolder folder;
  const Ended ended = run_toy(folder, slow({"--seconds=0.4", "--out=timed"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const RunRecord timed = read_run(folder / "timed");
  EXPECT_EQ(timed.result.seconds_limit, 0.4);
  EXPECT_GE(timed.result.train_seconds, 0.4);
  EXPECT_GE(timed.result.steps, 1);
  EXPECT_LE(timed.result.steps, 100);  // each takes at least 4 ms
  const std::vector<int64_t> steps = evaluated_steps(timed);
  EXPECT_EQ(steps.back(), timed.result.steps);
  EXPECT_LE(steps.size(), 10U);  // one at each tenth in which a step ends
  const auto results = nlohmann::json::parse(test::contents(folder / "timed/results.json"));
  EXPECT_EQ(results["seconds"], 0.4);
  EXPECT_EQ(results["steps"], timed.result.steps);

  // Except for where it ends, it equals the run of that many steps.
  const std::string as_many = fmt::format("--steps={}", timed.result.steps);
  ASSERT_EQ(run_toy(folder, {as_many, "--evaluate-every=0", "--out=counted", "--quiet"}).code, 0);
  EXPECT_EQ(place_of(folder / "counted"), place_of(folder / "timed"));
  EXPECT_EQ(evaluated_steps(read_run(folder / "counted")).size(), 10U);
}

TEST(Seconds, WhatIsPreparedIsNoTraining) {
  const TemporaryFolder folder;
  Prepared model;
  Log log(LogLevel::error);
  const TrainPlan plan{.steps = 3, .seconds = 0.4, .best_by = "loss"};
  const RunFolder run(folder / "run", false);
  const TrainResult result = Trainer(model, plan, run, {.id = "a", .config = ""}, log, Device::cpu(), "").run();
  EXPECT_EQ(result.steps, 3);
  EXPECT_LT(result.train_seconds, 0.4);
}

TEST(Seconds, StepsStayTheLimitWhereTheyComeFirst) {
  const TemporaryFolder folder;
  const Ended ended = run_toy(folder, {"--seconds=3600", "--steps=7", "--out=short"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("3600 seconds and at most 7 steps"), std::string::npos) << ended.err;
  EXPECT_EQ(read_run(folder / "short").result.steps, 7);
}

TEST(Seconds, ThatAreGoneStayGoneWhenARunGoesOn) {
  const TemporaryFolder folder;
  Process process(toy(slow({"--seconds=2", "--out=run"})), folder.path());
  ASSERT_TRUE(process.wait_for(folder / "run/metrics.jsonl", "valid"));
  process.kill(SIGINT);
  const Ended stopped = process.wait();
  ASSERT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_NE(stopped.err.find(" of 2 seconds; go on with: "), std::string::npos) << stopped.err;
  const double before = State::load(folder / "run/checkpoint-last").real("run.train_seconds");
  EXPECT_GT(before, 0);
  EXPECT_LT(before, 2);
  ASSERT_EQ(run_toy(folder, {"--resume", "--out=run", "--quiet"}).code, 0);
  const RunRecord whole = read_run(folder / "run");
  EXPECT_GE(whole.result.train_seconds, 2);
  // Each step sleeps; since all fit into two seconds, the earlier seconds were not granted again.
  EXPECT_LE(static_cast<double>(whole.result.steps) * 0.004, whole.result.train_seconds);
  double last = 0;
  for (const MetricsLine& line : whole.curves) {
    const double* const seconds = find_metric(line.metrics, "seconds");
    if (seconds == nullptr) continue;
    EXPECT_GT(*seconds, last);
    last = *seconds;
  }

  const Ended less = run_toy(folder, {"--resume", "--seconds=1", "--out=run"});
  EXPECT_EQ(less.code, 2);
  EXPECT_NE(less.err.find("seconds is 1 but was 2"), std::string::npos) << less.err;
  ASSERT_EQ(run_toy(folder, {"--resume", "--seconds=2.2", "--out=run", "--quiet"}).code, 0);
  const RunRecord longer = read_run(folder / "run");
  EXPECT_GT(longer.result.steps, whole.result.steps);
  EXPECT_GE(longer.result.train_seconds, 2.2);
  EXPECT_EQ(longer.result.seconds_limit, 2.2);
}

TEST(Seconds, AreRefusedWhereNothingIsTrained) {
  const TemporaryFolder folder;
  const Ended ended = Process({BOCHNER_EFFICIENCY, "--seconds=3"}, folder.path()).wait();
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("--seconds: efficiency trains nothing"), std::string::npos) << ended.err;
}

TEST(Seconds, SchedulesFollowTheTime) {
  const TaskData data = test::task_of(1);
  const RunOptions run = test::options_of(8);  // 100 steps
  const auto rate = [&](const std::string& schedule, double share, int64_t step) {
    OptimConfig optim = test::adamw();
    optim.schedule = schedule;
    optim.warmup = 0.1;
    Learner learner(run, optim, sequence::classification(run, test::encoder("none"), data, test::judged_by_accuracy()));
    for (int64_t before = 0; before < step; ++before) learner.step(before);
    learner.set_share_of_time(share);
    learner.step(step);
    return *find_metric(learner.extra(), "rate");
  };
  const auto scheduled = [&](Schedule::Kind kind, int64_t step) { return Schedule{kind, 1e-3, 10, 100}.rate(step); };
  using Kind = Schedule::Kind;
  for (const auto& [name, kind] :
       {std::pair{"linear", Kind::linear}, {"cosine", Kind::cosine}, {"one-cycle", Kind::one_cycle}}) {
    EXPECT_EQ(rate(name, 0.05, 0), scheduled(kind, 5)) << name;  // in the warm-up
    EXPECT_EQ(rate(name, 0.5, 1), scheduled(kind, 50)) << name;
    EXPECT_EQ(rate(name, 0.02, 4), scheduled(kind, 4)) << name;  // the steps will end it first
    EXPECT_EQ(rate(name, 1, 1), scheduled(kind, 100)) << name;
  }
}

}  // namespace
}  // namespace bochner
