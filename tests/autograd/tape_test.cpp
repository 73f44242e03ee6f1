// The tape: what is recorded and when, and the gradients.
#include "autograd/tape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "autograd/fused/dropout.h"
#include "autograd/fused/embedding.h"
#include "autograd/fused/linear.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/recompute.h"
#include "engine/allocator.h"
#include "engine/cpu/parts/packed_weights.h"
#include "engine/random.h"
#include "engine/trace.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;

Parameter scalar(const std::string& name, double value) { return {name, Tensor::scalar(value, DType::f64), {}}; }

TEST(Tape, WithoutOneNothingIsRecorded) {
  Parameter w = scalar("w", 3);
  EXPECT_FALSE(Variable(w).tracked());
  EXPECT_FALSE((Variable(w) * Variable(w)).tracked());
  Tape tape;
  EXPECT_TRUE((Variable(w) * Variable(w)).tracked());
  const size_t size = tape.size();
  {
    const NoTape paused;
    EXPECT_EQ(Tape::current(), nullptr);
    EXPECT_FALSE((Variable(w) * Variable(w)).tracked());
  }
  EXPECT_EQ(Tape::current(), &tape);
  EXPECT_EQ(tape.size(), size);
  const Variable constant = Variable(Tensor::scalar(2, DType::f64)) * Variable(Tensor::scalar(2, DType::f64));
  EXPECT_FALSE(constant.tracked());
  EXPECT_EQ(tape.size(), size);
}

TEST(Tape, GradientsOfManyBackwardPassesAddUp) {
  Parameter w = scalar("w", 3), frozen = scalar("frozen", 5);
  frozen.trainable = false;
  for (int pass = 1; pass <= 3; ++pass) {
    Tape tape;
    tape.backward(Variable(w) * Variable(w) * Variable(frozen));
    EXPECT_DOUBLE_EQ(w.grad.item(), pass * 2 * 3 * 5);
    EXPECT_FALSE(frozen.grad.defined());
  }
}

// x reaches y in three ways.
TEST(Tape, GradientsOfAllWaysAddUp) {
  Tape tape;
  const Variable x = tape.watch(Tensor::scalar(2, DType::f64));
  const Variable unused = tape.watch(Tensor::zeros({2, 3}, DType::f64));
  const Variable y = x * x + sin(x) * x + x;
  const Gradients g = tape.gradients(y, {x, unused});
  EXPECT_NEAR(g[0].item(), 4 + std::cos(2) * 2 + std::sin(2) + 1, 1e-14);
  EXPECT_EQ(g[1].shape(), (Shape{2, 3}));
  EXPECT_EQ(sum(square(g[1].value())).item(), 0);
}

TEST(Tape, DerivativesOfDerivativesToTheFourth) {
  Tape tape;
  const Variable x = tape.watch(Tensor::scalar(0.7, DType::f64));
  Variable y = sin(x) * exp(x);  // its fourth derivative is -4 of itself
  for (int order = 0; order < 4; ++order) y = tape.gradients(y, {x}, true)[0];
  EXPECT_NEAR(y.item(), -4 * std::sin(0.7) * std::exp(0.7), 1e-12);
}

TEST(Tape, BackwardFreesAsItGoes) {
  Parameter w{"w", Tensor::full({1000, 100}, 0.5), {}};
  Tape tape;
  Variable y = w;
  for (int i = 0; i < 50; ++i) y = exp(y * 0.01);
  const Variable total = sum(y);
  y = Variable();
  const int64_t before = Allocator::of(Device::cpu()).stats().current_bytes;
  Allocator::of(Device::cpu()).reset_peak();
  tape.backward(total);
  // 50 results are held before backward; all their gradients at once would double that.
  EXPECT_LT(Allocator::of(Device::cpu()).stats().peak_bytes, before + 5 * 400'000);
  EXPECT_LT(Allocator::of(Device::cpu()).stats().current_bytes, before - 40 * 400'000);
}

// Twice in plain ops and in two blocks that run again, one before the plain ops and one after them.
TEST(Tape, AParameterIsCompletedWhenItsGradientChangesNoMore) {
  Parameter often = scalar("often", 0.3), in_block = scalar("in_block", 0.5), plain = scalar("plain", 0.7);
  Parameter first = scalar("first", 1), frozen = scalar("frozen", 2);
  frozen.trainable = false;
  Generator noise(1);
  const auto block = [&](const std::vector<Variable>& in) {
    const Variable y = in[0] * often;
    return sin(y * in_block) * frozen;
  };
  std::vector<std::string> order;
  std::vector<double> told;
  Tape tape;
  Variable y = exp(first);
  y = y * plain;
  y = recompute(block, {y}, noise);
  y = exp(y * often) * often;
  y = recompute(block, {y}, noise);
  tape.backward(y, [&](Parameter& parameter) {
    order.push_back(parameter.name);
    told.push_back(parameter.grad.item());
  });
  EXPECT_EQ(order, (std::vector<std::string>{"in_block", "often", "plain", "first"}));
  std::vector<double> found;
  for (const Parameter* parameter : {&in_block, &often, &plain, &first}) found.push_back(parameter->grad.item());
  EXPECT_EQ(told, found);
}

TEST(Tape, MistakesAreNamed) {
  Tape tape;
  const Variable x = tape.watch(Tensor::zeros({2, 3}));
  EXPECT_EQ(message_of([&] { tape.backward(x); }),
            "backward: f32 (2, 3) cpu has 6 elements; give its gradient, or reduce it to one");
  EXPECT_NE(
      message_of([&] { tape.gradients(sum(x), {Variable(Tensor::zeros({1}))}); }).find("not watched by this tape"),
      std::string::npos);
  const Variable y = sum(x);
  tape.gradients(y, {x}, true);
  tape.backward(y);
  EXPECT_NE(message_of([&] { tape.backward(y); }).find("an earlier backward pass has freed"), std::string::npos);
  EXPECT_NE(message_of([&] { tape.gradients(y, {x}); }).find("create_graph = true"), std::string::npos);
}

TEST(Tape, GradientsThatAreGivenFitTheirOutputs) {
  Tape tape;
  const Variable x = tape.watch(Tensor::full({3}, 2));
  const Variable y = square(x);
  const auto told = [&](const Gradients& dys) { return message_of([&] { tape.gradients({y}, dys, {x}, true); }); };
  EXPECT_NE(told({}).find("1 outputs, but 0 gradients"), std::string::npos);
  EXPECT_NE(told({Tensor::zeros({2})}).find(" is given as the gradient of " + y.value().str()), std::string::npos);
  EXPECT_NE(told({Tensor::zeros({3}, DType::f64)}).find("the same shape and type"), std::string::npos);
  const Variable none;
  EXPECT_EQ(tape.gradients({y, y}, {Tensor::full({3}, 1), none}, {x})[0].value().to_vector<double>(),
            std::vector<double>(3, 4));
}

TEST(Tape, MayEndBeforeOneThatBeganEarlier) {
  auto first = std::make_unique<Tape>();
  auto second = std::make_unique<Tape>();
  first.reset();
  EXPECT_EQ(Tape::current(), second.get());
  const Variable x = second->watch(Tensor::scalar(3));
  EXPECT_EQ(second->gradients(square(x), {x})[0].item(), 6);
  second.reset();
  EXPECT_EQ(Tape::current(), nullptr);
}

TEST(Tape, ALossThatItDidNotRecordHasNoGradients) {
  Parameter w{"w", Tensor::scalar(3), {}};
  const Variable before = square(Variable(w));
  Tape tape;
  for (const Variable& loss : {before, Variable(Tensor::zeros({}))}) {
    EXPECT_EQ(
        message_of([&] { tape.backward(loss); }),
        "backward: " + loss.value().str() + " was not computed on this tape; make the Tape before the forward pass");
  }
  tape.backward(square(Variable(w)));
  EXPECT_EQ(w.grad.item(), 6);
}

TEST(Tape, NamesTheFirstOpThatIsNotFinite) {
  Tape tape({.check_finite = true});
  const Variable x = tape.watch(Tensor::full({3}, -1.0, DType::f64));
  const Variable y = x * 2;
  const std::string message = message_of([&] { log(y) + y; });
  EXPECT_TRUE(message.starts_with("log: the first NaN or Inf appears in its output f64 (3,)")) << message;
}

TEST(Tape, ScoresOfHiddenKeysAreNoMistake) {
  Tape tape({.check_finite = true});
  const Variable x = tape.watch(Tensor::full({3}, 0.5, DType::f64));
  const Tensor hidden = equal(Tensor::arange(3), Tensor::from<int64_t>({1}, {1}));
  const Variable weights = softmax(where(hidden, -std::numeric_limits<double>::infinity(), x));
  EXPECT_EQ(weights.value().to_vector<double>(), (std::vector<double>{0.5, 0, 0.5}));
  EXPECT_NE(message_of([&] { where(hidden, std::numeric_limits<double>::infinity(), x); }).find("where: the first"),
            std::string::npos);
}

TEST(Tape, NamesTheOpWithinABlockThatRunsAgain) {
  Generator noise(1);
  Tape tape({.check_finite = true});
  const Variable x = tape.watch(Tensor::full({3}, -1.0, DType::f64));
  const auto block = [](const std::vector<Variable>& in) { return log(in[0]) + in[0]; };
  const std::string message = message_of([&] { recompute(block, {x}, noise); });
  EXPECT_TRUE(message.starts_with("log: the first NaN or Inf")) << message;
  const auto right = [](const std::vector<Variable>& in) { return in[0] * 2; };
  EXPECT_EQ(tape.gradients(sum(recompute(right, {x}, noise)), {x})[0].value().to_vector<double>(),
            (std::vector<double>{2, 2, 2}));
}

TEST(Tape, ThousandsOfStepsDeepIsNoDanger) {
  Tape tape;
  const Variable x = tape.watch(Tensor::scalar(1, DType::f64));
  Variable y = x;
  for (int i = 0; i < 100'000; ++i) y = y + 1;
  EXPECT_EQ(tape.gradients(y, {x})[0].item(), 1);
}

TEST(Recompute, PacksWeightsOnce) {
  Generator values(1), noise(2);
  Parameter first{"first", normal({32, 32}, values), {}}, second{"second", normal({32, 32}, values), {}};
  std::vector<int64_t> before, after;
  const auto block = [&](const std::vector<Variable>& in) {
    before.push_back(cpu::kept_packed_weights());
    const Variable y = linear(linear(in[0], {first}), {second});
    after.push_back(cpu::kept_packed_weights());
    return y;
  };
  Tape tape;
  const Variable x = tape.watch(normal({5, 32}, values));
  tape.backward(sum(recompute(block, {x}, noise)));
  EXPECT_EQ(before, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(after, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(cpu::kept_packed_weights(), 0);
}

// The same loss, gradients and noise as without recomputation, from a tape that holds less.
TEST(Recompute, ChangesNothingButMemory) {
  const auto run = [](bool again, std::vector<std::vector<double>>& gradients) {
    Generator values(1), noise(2);
    Parameter w{"w", normal({8, 8}, values, 0, 1, DType::f64), {}};
    Tape tape;
    const Variable x = tape.watch(normal({5, 8}, values, 0, 1, DType::f64));
    const auto block = [&](const std::vector<Variable>& in) { return dropout(gelu(matmul(in[0], w)), 0.3, noise); };
    Variable y = x;
    for (int i = 0; i < 3; ++i) y = again ? recompute(block, {y}, noise) : block({y});
    const double loss = sum(square(y)).item();
    const size_t nodes = tape.size();
    tape.backward(sum(square(y)));
    gradients.push_back(w.grad.to_vector<double>());
    gradients.push_back({static_cast<double>(noise.offset()), loss});
    return nodes;
  };
  std::vector<std::vector<double>> plain, recomputed;
  EXPECT_LT(run(true, recomputed), run(false, plain));
  ASSERT_EQ(plain.size(), recomputed.size());
  EXPECT_EQ(plain[1], recomputed[1]);
  for (size_t i = 0; i < plain[0].size(); ++i) EXPECT_NEAR(plain[0][i], recomputed[0][i], 1e-12);
}

TEST(Recompute, GradientsReachTheInputsAsWell) {
  Generator noise(1);
  Tape tape;
  const Variable a = tape.watch(Tensor::scalar(2, DType::f64)), b = tape.watch(Tensor::scalar(3, DType::f64));
  const Variable y = recompute([](const std::vector<Variable>& in) { return in[0] * square(in[1]); }, {a, b}, noise);
  const Gradients g = tape.gradients(y, {a, b});
  EXPECT_DOUBLE_EQ(g[0].item(), 9);
  EXPECT_DOUBLE_EQ(g[1].item(), 12);
}

TEST(Recompute, GradientsReachItsParametersAsThoseOfOtherOps) {
  Generator noise(1);
  Parameter p = scalar("p", 3);
  Tape tape;
  const Variable x = tape.watch(Tensor::scalar(2, DType::f64));
  const Variable y = recompute([&](const auto& in) { return square(in[0]) * Variable(p); }, {x}, noise);
  EXPECT_NE(message_of([&] { tape.gradients(y, {x}, true); }).find("cannot be differentiated twice"),
            std::string::npos);
  Tape other;
  const Variable z = other.watch(Tensor::scalar(2, DType::f64));
  const Variable again = recompute([&](const auto& in) { return square(in[0]) * Variable(p); }, {z}, noise);
  const Gradients g = other.gradients(again * 5, {z, other.leaf(p)});
  EXPECT_EQ(g[0].item(), 60);
  EXPECT_EQ(g[1].item(), 20);
  EXPECT_FALSE(p.grad.defined()) << "gradients() writes to no parameter";
}

TEST(Derivatives, LargeNumbersLoseNothingInLogSoftmax) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = Tensor::from<double>({20, 21, 25}, {3}).cast(dtype) + (dtype == DType::f32 ? 1e6 : 0);
    const std::vector<double> y = log_softmax(Variable(x)).value().to_vector<double>();
    const double sum = std::log(std::exp(-5.0) + std::exp(-4.0) + 1);
    const double tolerance = dtype == DType::f32 ? 1e-6 : 0.02;
    EXPECT_NEAR(y[0], -5 - sum, tolerance) << name_of(dtype);
    EXPECT_NEAR(y[2], -sum, 0.02 * sum) << name_of(dtype);
  }
}

TEST(Derivatives, TheLargestNumbersShareTheGradient) {
  Tape tape;
  const Variable x = tape.watch(Tensor::from<double>({2, 2, 1}, {3}));
  EXPECT_EQ(tape.gradients(amax(x), {x})[0].value().to_vector<double>(), (std::vector<double>{0.5, 0.5, 0}));
}

TEST(Derivatives, TheRowOfPaddingHasNone) {
  const Tensor ids = Tensor::from<int64_t>({0, 2, 2, 1}, {4});
  for (const int64_t padding : {-1, 2}) {
    Tape tape;
    const Variable table = tape.watch(Tensor::from<double>({1, 2, 3, 4, 5, 6}, {3, 2}));
    const Variable y = embedding(table, ids, padding);
    const Variable first = tape.gradients(sum(y * y * y), {table}, true)[0];  // 3 n x^2 of a row that occurs n times
    const std::vector<double> second = tape.gradients(sum(first), {table})[0].value().to_vector<double>();  // 6 n x
    const double of_row_2 = padding == 2 ? 0 : 2;
    const std::vector<double> x = {1, 2, 3, 4, 5, 6};
    const std::vector<double> n = {1, 1, 1, 1, of_row_2, of_row_2};
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(first.value().to_vector<double>()[i], 3 * n[i] * x[i] * x[i]) << padding;
      EXPECT_EQ(second[i], 6 * n[i] * x[i]) << padding;
    }
  }
}

TEST(Tape, TheLargestOfAnAxisIsFoundOnce) {
  const Variable x = Tensor::arange(6, DType::f32).view({2, 3});
  trace::start();
  EXPECT_EQ(amax(x, {1}, false).value().to_vector<float>(), (std::vector<float>{2, 5}));
  trace::stop();
  int reductions = 0;
  for (const trace::Event& event : trace::events()) reductions += event.name == std::string("reduce") ? 1 : 0;
  EXPECT_EQ(reductions, 1);
}

}  // namespace
}  // namespace bochner
