// The optimizer and the schedule that the options --optim.* give, and what a Learner does with them.
#include "experiments/learners/optim_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "experiments/common/program/settings.h"
#include "layers/linear.h"
#include "tests/experiments/learner_problems.h"

namespace bochner {
namespace {

TEST(OptimConfig, OptimizerAndScheduleAreThoseOfTheConfig) {
  OptimConfig optim;
  optim.rate = 0.1;
  optim.beta1 = 0.8;
  optim.beta2 = 0.7;
  optim.eps = 1e-3;
  optim.weight_decay = 0.25;
  const AdamOptions same{0.8, 0.7, 1e-3, 0.25};
  const auto after = [&](const std::function<std::unique_ptr<Optimizer>(std::vector<ParameterGroup>)>& make) {
    Generator init(1);
    Linear layer({}, 2, 2, init);
    const std::unique_ptr<Optimizer> made = make(one_group(layer.parameters()));
    for (const double g : {1.0, 3.0, -0.5}) {
      for (Parameter* parameter : layer.parameters()) parameter->grad = Tensor::full(parameter->shape(), g);
      made->step(0.1);
    }
    return layer.weight.value.to_vector<float>();
  };
  const auto of_config = [&](auto groups) -> std::unique_ptr<Optimizer> {
    return optim.optimizer_of(std::move(groups));
  };
  optim.optimizer = "adamw";
  EXPECT_EQ(after(of_config), after([&](auto groups) { return std::make_unique<AdamW>(std::move(groups), same); }));
  optim.optimizer = "adam";
  EXPECT_EQ(after(of_config), after([&](auto groups) { return std::make_unique<Adam>(std::move(groups), same); }));
  optim.schedule = "constant";
  optim.warmup = 4;
  EXPECT_EQ(optim.schedule_of(10).rate(2), 0.05);
  EXPECT_EQ(optim.schedule_of(10).rate(4), 0.1);
}

TEST(OptimConfig, WeightsOfSnnkLayersHaveTheirOwnRate) {
  SnnkOptimConfig optim;
  optim.snnk_rate = 3;
  Parameter weight{"hidden1.weight", Tensor::zeros({2, 2}), {}};
  const std::vector<GroupRule> rules = optim.rules({&weight});
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(rules[0].pattern, "hidden1.weight");
  EXPECT_EQ(rules[0].rate, 3);
}

/// The weights after four steps on the same problem, each with the rate and the beta1 for its number.
std::map<std::string, std::vector<double>> by_hand(const OptimConfig& optim, const RunOptions& run,
                                                   const TableSplit& rows) {
  Problem problem = test::of_numbers(run, rows);
  const std::unique_ptr<Adam> adam = optim.optimizer_of(one_group(problem.model->parameters()));
  const Schedule schedule = optim.schedule_of(run.steps);
  for (int64_t step = 0; step < 4; ++step) {
    const Examples batch = problem.train->next();
    Generator noise(1);
    Context context{noise, true, step};
    Tape tape;
    tape.backward(problem.objective->loss(problem.forward(batch, context), batch));
    if (optim.cycle_beta1) adam->set_beta1(one_cycle_beta1(schedule, step));
    adam->step(schedule.rate(step));
    adam->clear_gradients();
  }
  std::map<std::string, std::vector<double>> weights;
  for (const auto& [name, tensor] : problem.model->state()) weights[name] = tensor.to_vector<double>();
  return weights;
}

TEST(OptimConfig, EachStepHasTheRateAndTheBeta1OfItsNumber) {
  const TableSplit rows = test::line(32, 1);
  for (const bool cycle : {false, true}) {
    OptimConfig optim = test::adamw(0.1);
    optim.schedule = cycle ? "one-cycle" : "linear";
    optim.cycle_beta1 = cycle;
    optim.warmup = 2;
    optim.clip_norm = 0;
    RunOptions run = test::options_of(8);
    run.steps = 6;
    Learner learner(run, optim, test::of_numbers(run, rows));
    const auto first = test::weights_of(learner);
    learner.step(0);
    EXPECT_EQ(test::weights_of(learner) == first, !cycle);  // the linear rate rises from 0
    for (int64_t step = 1; step < 4; ++step) learner.step(step);
    const auto expected = by_hand(optim, run, rows);
    for (const auto& [name, values] : test::weights_of(learner)) {
      ASSERT_TRUE(expected.contains(name)) << name;
      for (size_t i = 0; i < values.size(); ++i) EXPECT_FLOAT_EQ(values[i], expected.at(name)[i]) << name << cycle;
    }
  }
}

TEST(OptimConfig, TheNormOfAWholeBatchesGradientIsClipped) {
  const TableSplit rows = test::line(16, 1);
  OptimConfig optim = test::adamw();
  optim.eps = 1;  // so that a small gradient gives a small step
  optim.weight_decay = 0;
  const auto moved = [&](double clip_norm, int64_t accumulate) {
    optim.clip_norm = clip_norm;
    const RunOptions run = test::options_of(8, accumulate);
    Learner still(run, optim, test::of_numbers(run, rows));
    Learner learner(run, optim, test::of_numbers(run, rows));
    learner.step(0);
    return test::apart(still, learner);
  };
  EXPECT_GT(moved(0, 1), 2e-2 * optim.rate);
  for (const int64_t accumulate : {1, 2}) {
    EXPECT_LT(moved(1e-2, accumulate), 1.01e-2 * optim.rate) << accumulate;
    EXPECT_GT(moved(1e-2, accumulate), 0.1e-2 * optim.rate) << accumulate;
  }
}

TEST(OptimConfig, AnotherNumberOfValidationsIsNoLongerTheProtocol) {
  struct {
    RunOptions run;
    OptimConfig optim;
    void fields(Fields& f) {
      run.fields(f);
      f.group("optim", optim);
    }
  } config;
  Fields fields = Fields::of(config);
  const std::vector<std::string> arguments = {"--optim.evaluate-every=7", "--threads=1"};
  const ConfigReport report = load_config({"toy", "A test", {}}, fields, config.run, arguments, {});
  ASSERT_EQ(report.overrides.size(), 1U);
  EXPECT_EQ(report.overrides[0], (std::pair<std::string, std::string>("optim.evaluate-every", "7")));
}

}  // namespace
}  // namespace bochner
