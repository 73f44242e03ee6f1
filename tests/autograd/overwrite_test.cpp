// Memory that a tape holds is overwritten: backward fails with an error that names the op, and never returns wrong
// gradients.
#include <gtest/gtest.h>

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "autograd/optim/optimizer.h"
#include "autograd/recompute.h"
#include "engine/ops/binary.h"
#include "engine/ops/hadamard.h"
#include "engine/ops/index.h"
#include "engine/ops/norm.h"
#include "engine/ops/optimizer_step.h"
#include "engine/random.h"
#include "tests/autograd/op_info.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;

using Write = std::function<void(const Tensor&)>;

Tensor numbers(const Shape& shape, uint64_t seed) {
  Generator generator(seed);
  return normal(shape, generator, 0, 1, DType::f64);
}

/// The message of backward for y = square(x) if `write` runs before it; x is a part of its argument.
std::string after(const Write& write) {
  const Tensor all = numbers({4, 4}, 1);
  Tape tape;
  const Variable x = tape.watch(all.slice(0, 0, 2));
  const Variable y = sum(square(x));
  write(all);
  return message_of([&] { tape.gradients(y, {x}); });
}

TEST(Overwrite, EveryWayToWriteInPlaceIsSeenThroughViews) {
  const std::string expected =
      "square: backward needs what it had at the forward pass, but a tensor of 128 bytes was overwritten in place "
      "since; run backward first, or write to a copy";
  const Tensor more = numbers({4, 4}, 2), row = numbers({4}, 3);
  const AdamStep adam{0.1, 0.9, 0.99, 1e-8, 0, true, 1};
  const SgdStep sgd{0.1, 0.9, 0, false};
  const Tensor first = Tensor::from<int64_t>({0}, {1}), places = Tensor::zeros({1, 4}, DType::i64);
  EXPECT_EQ(after([](const Tensor&) {}), "no error");
  EXPECT_EQ(after([&](const Tensor& x) { x.copy_(more); }), expected);
  EXPECT_EQ(after([&](const Tensor& x) { x.transpose(0, 1).slice(1, 1, 2).fill_(0); }), expected);
  EXPECT_EQ(after([&](const Tensor& x) { add_(x, more); }), expected);
  EXPECT_EQ(after([&](const Tensor& x) { hadamard_(x); }), expected);
  EXPECT_EQ(after([&](const Tensor& x) { take_add_(x, first, more.slice(0, 0, 1)); }), expected);
  EXPECT_EQ(after([&](const Tensor& x) { scatter_add_(x, 0, places, more.slice(0, 0, 1)); }), expected);
  EXPECT_EQ(after([&](const Tensor& x) {
              batch_norm(more, row, row, {x.select(0, 0), x.select(0, 1)}, 0.1, 1e-5);
            }),
            expected);
  EXPECT_EQ(after([&](const Tensor& x) { adam_step(adam, {{x, more, more.clone(), more.clone()}}); }), expected);
  EXPECT_EQ(after([&](const Tensor& x) { adam_step(adam, {{more.clone(), more, x, more.clone()}}); }), expected);
  EXPECT_EQ(after([&](const Tensor& x) { sgd_step(sgd, {{x, more, more.clone()}}); }), expected);
  EXPECT_EQ(after([&](const Tensor& x) { sgd_step(sgd, {{more.clone(), more, x}}); }), expected);
  EXPECT_EQ(after([&](const Tensor& x) {
              x.data<double>()[0] = 3;
              x.overwritten();
            }),
            expected);
}

TEST(Overwrite, WhatNoOpOnTheWayHoldsMayBeOverwritten) {
  Tape tape;
  const Variable x = tape.watch(numbers({3}, 1));
  const Variable y = sum(square(concat({x, x}, 0)));
  x.value().fill_(0);  // what is squared is a copy
  EXPECT_EQ(message_of([&] { tape.gradients(y, {x}, true); }), "no error");
  const Variable other = square(x);
  const Variable z = sum(concat({x, x}, 0));
  x.value().fill_(0);  // z does not lead to `other`
  EXPECT_EQ(message_of([&] { tape.gradients(z, {x}); }), "no error");
}

TEST(Overwrite, OptimizersStepAfterBackwardAndNotBefore) {
  Parameter w{"w", numbers({3, 3}, 1), {}};
  Adam optimizer({&w});
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    const Variable loss = sum(square(matmul(numbers({2, 3}, 2), w)));
    EXPECT_EQ(message_of([&] { tape.backward(loss); }), "no error");
    optimizer.step(0.1);
    EXPECT_EQ(message_of([&] { optimizer.step(0.1); }), "no error");
    optimizer.clear_gradients();
  }
  Tape tape;
  const Variable x = tape.watch(numbers({2, 3}, 2));
  const Variable loss = sum(square(matmul(x, w)));
  w.grad = numbers({3, 3}, 4);
  optimizer.step(0.1);
  EXPECT_TRUE(message_of([&] { tape.backward(loss); }).starts_with("matmul: backward needs")) << "the gradient of x";
}

TEST(Overwrite, SecondDerivativesAreWatched) {
  Tape tape;
  const Variable x = tape.watch(numbers({3}, 1));
  const Variable slope = tape.gradients(sum(x * square(x)), {x}, true)[0];
  const Variable again = tape.gradients(sum(slope), {x}, true)[0];
  EXPECT_EQ(again.value().to_vector<double>(), (x * 6).value().to_vector<double>());
  x.value().fill_(1);
  EXPECT_NE(message_of([&] { tape.gradients(sum(again), {x}); }).find(": backward needs what"), std::string::npos);
}

TEST(Overwrite, AParameterOfABlockThatRunsAgainIsNamed) {
  Parameter w{"block.weight", numbers({3, 3}, 1), {}}, frozen{"block.frozen", numbers({3, 3}, 2), {}, false};
  for (Parameter* written : {&w, &frozen}) {
    Generator noise(1);
    Tape tape;
    const Variable x = tape.watch(numbers({2, 3}, 3));
    const Variable y =
        recompute([&](const std::vector<Variable>& in) { return matmul(matmul(in[0], w), frozen); }, {x}, noise);
    written->value.fill_(1);
    EXPECT_EQ(message_of([&] { tape.backward(sum(y)); }),
              "recompute: parameter " + written->name +
                  " was overwritten between forward and backward, which runs the block again; run backward first");
  }
}

// Two gradients that are the same tensor get separate memory, to which the next backward pass adds.
TEST(Overwrite, GradientsOfParametersShareNoMemory) {
  Parameter a{"a", numbers({3}, 1), {}}, b{"b", numbers({3}, 2), {}};
  const Tensor given = Tensor::full({3}, 1, DType::f64);
  for (int pass = 1; pass <= 3; ++pass) {
    Tape tape;
    tape.backward({a + b}, {given});
    EXPECT_EQ(a.grad.to_vector<double>(), std::vector<double>(3, pass));
    EXPECT_EQ(b.grad.to_vector<double>(), std::vector<double>(3, pass));
  }
  EXPECT_EQ(given.to_vector<double>(), std::vector<double>(3, 1));
}

class EveryOpThatIsOverwritten : public testing::TestWithParam<size_t> {};

// Whichever input is overwritten, the gradients are unchanged, or there is an error.
TEST_P(EveryOpThatIsOverwritten, AnswersRightlyOrNotAtAll) {
  const OpInfo& op = op_infos()[GetParam()];
  const Sample& sample = op.samples[0];
  const auto gradients = [&](int64_t overwritten, std::string& error) {
    Tape tape;
    std::vector<Variable> inputs;
    for (const Tensor& input : sample.inputs) inputs.push_back(tape.watch(input.clone()));
    const Variable y = sample.apply(inputs);
    std::vector<std::vector<double>> results;
    if (!y.tracked()) return results;
    if (overwritten >= 0) inputs[static_cast<size_t>(overwritten)].value().fill_(0.7);
    error = message_of([&] {
      for (const Variable& one : tape.gradients({y}, {sample_values(y.shape(), 5, -1, 1).cast(y.dtype())}, inputs)) {
        results.push_back(one.value().to_vector<double>());
      }
    });
    return results;
  };
  std::string error;
  const auto expected = gradients(-1, error);
  for (size_t i = 0; i < sample.inputs.size() && error == "no error"; ++i) {
    std::string refused;
    const auto found = gradients(static_cast<int64_t>(i), refused);
    if (refused == "no error") {
      EXPECT_EQ(found, expected) << op.name << ": input " << i;
    } else {
      EXPECT_NE(refused.find(": backward needs what it had at the forward pass"), std::string::npos) << refused;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOpThatIsOverwritten, testing::Range<size_t>(0, op_infos().size()),
                         [](const auto& tested) { return op_infos()[tested.param].name; });

// Both share memory: what is read must be what was there before.
TEST(Overlap, CopiesAndSumsReadBeforeTheyWrite) {
  const auto square = [] { return Tensor::arange(9).cast(DType::f32).view({3, 3}); };
  const Tensor expected = square() + square().transpose(0, 1);
  const Tensor x = square();
  add_(x, x.transpose(0, 1));
  EXPECT_EQ(x.to_vector<float>(), expected.to_vector<float>());
  const Tensor turned = square();
  turned.copy_(turned.transpose(0, 1));
  EXPECT_EQ(turned.to_vector<float>(), square().transpose(0, 1).contiguous().to_vector<float>());
  const Tensor row = Tensor::arange(100001).cast(DType::f32);
  row.slice(0, 1, 100001).copy_(row.slice(0, 0, 100000));
  EXPECT_EQ(row.data<float>()[0], 0);
  for (int64_t i = 1; i < 100001; ++i) ASSERT_EQ(row.data<float>()[i], static_cast<float>(i - 1));
}

}  // namespace
}  // namespace bochner
