// The optimizer and the schedule that are made of the options --optim.*.
#include "experiments/learners/optim_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "layers/linear.h"

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

}  // namespace
}  // namespace bochner
