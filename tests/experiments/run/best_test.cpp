// Which of a run's evaluations is the best, and whose test result is reported.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <limits>

#include "experiments/common/run/trainer.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// A model whose only weight is its number of steps, with a given value at each evaluation and the number of its step
/// as the test value.
class Scripted final : public Trainable {
 public:
  Scripted(std::string metric, std::vector<double> values) : metric_(std::move(metric)), values_(std::move(values)) {}

  StepResult step(int64_t step) override {
    weight_.fill_(static_cast<double>(step + 1));
    return {.loss = Tensor::scalar(1, DType::f64), .count = 1};
  }
  Metrics evaluate(Split split) override {
    const auto step = static_cast<size_t>(weight_.item());
    return {{metric_, split == Split::test ? static_cast<double>(step) : values_.at(step - 1)}};
  }
  void save_model(State& state) override { state.tensors["weight"] = weight_; }
  void load_model(const State& state) override { state.copy_to("weight", weight_); }
  void save_training(State&) override {}
  void load_training(const State&) override {}
  int64_t parameters() override { return 1; }

 private:
  std::string metric_;
  std::vector<double> values_;
  Tensor weight_ = Tensor::zeros({}, DType::f64);
};

/// The result of a run that evaluates after each step.
TrainResult result_of(const std::string& metric, const std::vector<double>& values) {
  const test::TemporaryFolder folder;
  const RunFolder run(folder / "run", false);
  Scripted model(metric, values);
  Log log(LogLevel::error);
  const TrainPlan plan{
      .steps = static_cast<int64_t>(values.size()), .log_every = 1, .evaluate_every = 1, .best_by = metric};
  return Trainer(model, plan, run, {.id = "best", .config = ""}, log, Device::cpu(), "").run();
}

void expect_best(const std::string& metric, const std::vector<double>& values, int64_t step) {
  const TrainResult result = result_of(metric, values);
  const std::string given = metric + " " + fmt::format("{}", fmt::join(values, ", "));
  EXPECT_EQ(result.best_step, step) << given;
  EXPECT_EQ(*find_metric(result.test, metric), static_cast<double>(step)) << given;
  EXPECT_EQ(*find_metric(result.test_last, metric), static_cast<double>(values.size())) << given;
}

TEST(BestModel, HasTheLargestAccuracyOrTheSmallestLoss) {
  expect_best("accuracy", {0.2, 0.7, 0.5}, 2);
  expect_best("loss", {0.2, 0.1, 0.5}, 2);
}

TEST(BestModel, OfEqualOnesIsTheFirst) {
  expect_best("accuracy", {0.2, 0.7, 0.7}, 2);
  expect_best("loss", {0.7, 0.2, 0.2}, 2);
}

// MCC, and the correlation of constant answers, may be NaN.
TEST(BestModel, IsAnyThatHasANumberRatherThanNone) {
  expect_best("pearson", {kNan, 0.1, 0.05}, 2);
  expect_best("pearson", {0.1, kNan, 0.05}, 1);
  expect_best("loss", {kNan, kNan, 3}, 3);
}

}  // namespace
}  // namespace bochner
