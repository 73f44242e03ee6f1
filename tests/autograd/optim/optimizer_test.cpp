// Optimizers on parameters with gradients; the update itself is compared with plain loops in
// tests/engine/ops/optimizer_step_test.cpp.
#include "autograd/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "engine/ops/binary.h"
#include "engine/ops/unary.h"

namespace bochner {
namespace {

Parameter parameter(const std::string& name, const std::vector<double>& value, const std::vector<double>& grad) {
  const Shape shape{static_cast<int64_t>(value.size())};
  return {name, Tensor::from(value, shape), grad.empty() ? Tensor() : Tensor::from(grad, shape)};
}

// The first step of Adam moves each entry by the rate, against the sign of its gradient.
TEST(Optimizer, AdamsFirstStepHasTheLengthOfTheRate) {
  Parameter p = parameter("p", {1, -2, 3}, {0.5, -4, 1e-3});
  Adam(std::vector<Parameter*>{&p}, {.eps = 0}).step(0.1);
  const std::vector<double> moved = p.value.to_vector<double>();
  EXPECT_NEAR(moved[0], 0.9, 1e-15);
  EXPECT_NEAR(moved[1], -1.9, 1e-15);
  EXPECT_NEAR(moved[2], 2.9, 1e-15);
}

// AdamW shrinks the parameter itself; Adam adds the decay to the gradient, of which only the sign counts in the first
// step.
TEST(Optimizer, DecayIsDecoupledInAdamWAlone) {
  Parameter p = parameter("p", {10}, {-1});
  AdamW(std::vector<Parameter*>{&p}, {.eps = 0, .weight_decay = 0.5}).step(0.1);
  EXPECT_NEAR(p.value.item(), 10 * (1 - 0.1 * 0.5) + 0.1, 1e-14);
  Parameter q = parameter("q", {10}, {-1});
  Adam(std::vector<Parameter*>{&q}, {.eps = 0, .weight_decay = 0.5}).step(0.1);  // gradient -1 + 5
  EXPECT_NEAR(q.value.item(), 10 - 0.1, 1e-14);
}

TEST(Optimizer, AMinimumIsFound) {
  const auto distance = [](auto&& make, double rate) {
    Parameter p = parameter("p", {3, -1}, {});
    const std::unique_ptr<Optimizer> optimizer = make(&p);
    for (int step = 0; step < 400; ++step) {
      p.grad = p.value - Tensor::from<double>({1, 2}, {2});
      optimizer->step(rate);
      optimizer->clear_gradients();
    }
    const std::vector<double> at = p.value.to_vector<double>();
    return std::hypot(at[0] - 1, at[1] - 2);
  };
  using Parameters = std::vector<Parameter*>;
  EXPECT_LT(distance([](Parameter* p) { return std::make_unique<Sgd>(Parameters{p}); }, 0.1), 1e-9);
  EXPECT_LT(distance(
                [](Parameter* p) {
                  return std::make_unique<Sgd>(Parameters{p}, SgdOptions{0.9, 0, true});
                },
                0.02),
            1e-6);
  EXPECT_LT(distance([](Parameter* p) { return std::make_unique<Adam>(Parameters{p}); }, 0.05), 0.02);
}

TEST(Optimizer, WhatHasNoGradientOrIsFrozenStaysWhereItIs) {
  Parameter moves = parameter("moves", {1}, {1}), none = parameter("none", {1}, {}),
            frozen = parameter("frozen", {1}, {1});
  frozen.trainable = false;
  AdamW optimizer({&moves, &none, &frozen});
  optimizer.step(0.1);
  EXPECT_NE(moves.value.item(), 1);
  EXPECT_EQ(none.value.item(), 1);
  EXPECT_EQ(frozen.value.item(), 1);
  optimizer.clear_gradients();
  EXPECT_FALSE(moves.grad.defined());
}

/// Some steps with gradients that depend on the step.
void advance(Optimizer& optimizer, Parameter& p, int from, int to) {
  for (int step = from; step < to; ++step) {
    p.grad = sin(p.value * (1.0 + step));
    optimizer.step(0.05);
  }
}

TEST(Optimizer, GoesOnFromItsStateBitForBit) {
  Parameter whole = parameter("p", {1, 2, 3}, {}), cut = parameter("p", {1, 2, 3}, {});
  AdamW uninterrupted({&whole}), first({&cut}), second({&cut});
  advance(uninterrupted, whole, 0, 10);
  advance(first, cut, 0, 4);
  second.load_state(first.state());
  EXPECT_EQ(second.steps(), 4);
  advance(second, cut, 4, 10);
  EXPECT_EQ(cut.value.to_vector<double>(), whole.value.to_vector<double>());
}

TEST(Optimizer, AStateThatDoesNotFitIsRefusedByName) {
  Parameter p = parameter("p", {1, 2}, {}), wide = parameter("p", {1, 2, 3}, {}), other = parameter("q", {1, 2}, {});
  AdamW optimizer({&p});
  const auto message = [&](const Optimizer& from) -> std::string {
    try {
      optimizer.load_state(from.state());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(AdamW({&wide})), "optimizer state: 'p.first_moment' has shape (3,), not (2,)");
  EXPECT_NE(message(AdamW({&other})).find("'p.first_moment' is missing"), std::string::npos);
  EXPECT_NE(message(Sgd({&p})).find("'p.first_moment' is missing"), std::string::npos);
  for (const Tensor& steps : {Tensor::from<int64_t>({-1}, {1}), Tensor::from<float>({1}, {1})}) {
    std::map<std::string, Tensor> state = optimizer.state();
    state["steps"] = steps;
    EXPECT_THROW(optimizer.load_state(state), Error);
  }
  EXPECT_EQ(optimizer.steps(), 0);
  Parameter twin = parameter("p", {1, 2}, {});
  EXPECT_THROW((void)Adam({&p, &twin}).state(), Error) << "both would be called p";
}

TEST(Optimizer, NumbersWithoutAMeaningAreRefused) {
  Parameter p = parameter("p", {1}, {});
  for (const AdamOptions& options :
       {AdamOptions{.beta1 = 1}, {.beta2 = 1}, {.beta2 = -1}, {.beta2 = NAN}, {.eps = -1}, {.weight_decay = -1}}) {
    EXPECT_THROW(Adam({&p}, options), Error);
  }
  EXPECT_THROW(Sgd({&p}, {.momentum = -1}), Error);
}

TEST(Clip, ByNormScalesAllGradientsTogether) {
  Parameter a = parameter("a", {0, 0}, {3, 0}), b = parameter("b", {0}, {4}), none = parameter("none", {0}, {});
  const std::vector<Parameter*> all = {&a, &b, &none};
  EXPECT_DOUBLE_EQ(gradient_norm(all), 5);
  EXPECT_DOUBLE_EQ(clip_by_norm(all, 1).scale.item(), 0.2);
  EXPECT_DOUBLE_EQ(clip_by_norm(all, 6).scale.item(), 1);
  Sgd(all).step(1, clip_by_norm(all, 1));  // p -= g / 5
  EXPECT_DOUBLE_EQ(a.value.to_vector<double>()[0], -0.6);
  EXPECT_DOUBLE_EQ(b.value.item(), -0.8);
  EXPECT_EQ(none.value.item(), 0);
}

TEST(Clip, ByValueCutsEachEntry) {
  Parameter a = parameter("a", {0, 0, 0}, {3, -0.5, -7});
  Sgd({&a}).step(1, {.limit = 1});
  EXPECT_EQ(a.value.to_vector<double>(), (std::vector<double>{-1, 0.5, 1}));
}

TEST(Clip, ByNormComesBeforeByValue) {
  Parameter a = parameter("a", {0, 0}, {3, 4});
  GradientClip clip = clip_by_norm({&a}, 1);  // (0.6, 0.8)
  clip.limit = 0.7;
  Sgd({&a}).step(1, clip);
  EXPECT_DOUBLE_EQ(a.value.to_vector<double>()[0], -0.6);
  EXPECT_DOUBLE_EQ(a.value.to_vector<double>()[1], -0.7);
}

TEST(Clip, NothingMovesBehindAGuardThatIsNotFinite) {
  Parameter a = parameter("a", {1}, {3});
  GradientClip clip;
  clip.guard = Tensor::full({}, std::numeric_limits<double>::quiet_NaN(), DType::f64);
  Sgd({&a}).step(1, clip);
  EXPECT_EQ(a.value.item(), 1);
  clip.guard.fill_(0);
  Sgd({&a}).step(1, clip);
  EXPECT_EQ(a.value.item(), -2);
}

}  // namespace
}  // namespace bochner
