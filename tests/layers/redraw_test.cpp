// When random features are redrawn: after training steps, and without changing what a tape, or a block that runs again,
// has already used.
#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/fused/cross_entropy.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/optim/optimizer.h"
#include "autograd/recompute.h"
#include "layers/attention/mechanism.h"
#include "layers/batch_norm.h"
#include "layers/models/encoder.h"
#include "layers/spectral/distribution.h"

namespace bochner {
namespace {

using Bytes = std::vector<std::vector<double>>;

constexpr int64_t kDim = 8;
const Shape kShape{2, 2, 7, kDim};

Tensor values(uint64_t seed, const Shape& shape = kShape) {
  Generator generator(seed);
  return normal(shape, generator, 0, 1, DType::f64);
}

struct Case {
  std::string attention;
  int64_t redraw;
  std::string as = "paper";

  std::string name() const { return attention + "_" + std::to_string(redraw) + (as == "paper" ? "" : "_" + as); }
  MechanismOptions options() const {
    return MechanismOptions(attention, {{"features", 8}, {"redraw", redraw}}).set_known({{"as", as}});
  }
};

void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name(); }  // NOLINT: googletest's name

/// All gradients and the state of ten steps of training.
Bytes trained(const Case& tested, bool recompute) {
  EncoderOptions options{.vocabulary = 9, .length = 12, .classes = 3, .layers = 2, .dim = 16, .hidden = 8};
  options.attention = {.mechanism = tested.options(), .heads = 2};
  options.dropout = 0.2;
  options.recompute = recompute;
  Generator init(1), data(2), noise(3);
  SequenceClassifier model(options, init);
  AdamW optimizer(model.parameters());
  Bytes all;
  for (int64_t step = 0; step < 10; ++step) {
    const Tensor ids = integers({2, 12}, 0, 9, data);
    Context context{noise, true, step};
    {
      Tape tape;
      const Variable loss = cross_entropy(model.forward(ids, {}, context), integers({2}, 0, 3, data));
      tape.backward(loss);
      all.push_back({loss.item()});
    }
    for (const Parameter* one : model.parameters()) {
      all.push_back(one->grad.defined() ? one->grad.to_vector<double>() : std::vector<double>());
    }
    optimizer.step(1e-2);
    optimizer.clear_gradients();
  }
  for (const auto& [name, tensor] : model.state()) all.push_back(tensor.to_vector<double>());
  all.push_back({static_cast<double>(noise.offset())});
  return all;
}

class Redraw : public testing::TestWithParam<Case> {};

TEST_P(Redraw, BlocksThatRunAgainSeeTheSameFeatures) {
  EXPECT_EQ(trained(GetParam(), true), trained(GetParam(), false));
}

// Gradients of a sum are sums of gradients, also if the second forward pass redraws before the first one's backward.
TEST_P(Redraw, TwoForwardPassesMayComeBeforeOneBackward) {
  const Case tested = GetParam();
  const auto gradients = [&](bool together) {
    Generator init(4), noise(5);
    const auto mechanism = make_mechanism({}, 2, kDim, tested.options(), init);
    mechanism->to(Device::cpu(), DType::f64);
    std::vector<Tensor> x = {values(1), values(2), values(3), values(4), values(5), values(6)};
    const Tensor dO = values(7);
    Bytes found;
    for (int round = 0; round < 2; ++round) {  // in the first round nothing is due
      for (Parameter* one : mechanism->parameters()) one->grad = {};
      Context context{noise, true};
      const auto half = [&](Tape& tape, size_t at, std::vector<Variable>& in) {
        for (size_t i = at; i < at + 3; ++i) in.push_back(tape.watch(x[i]));
        return mechanism->forward(in[in.size() - 3], in[in.size() - 2], in[in.size() - 1], {}, context);
      };
      if (together) {
        Tape tape;
        std::vector<Variable> in;
        const Variable first = half(tape, 0, in);
        tape.backward(sum((first + half(tape, 3, in)) * dO));
      } else {
        for (const size_t at : {size_t{0}, size_t{3}}) {
          Tape tape;
          std::vector<Variable> in;
          tape.backward(sum(half(tape, at, in) * dO));
        }
      }
      for (const Parameter* one : mechanism->parameters()) found.push_back(one->grad.to_vector<double>());
      Tape tape;
      std::vector<Variable> in;
      const Variable first = half(tape, 0, in);
      const Variable second = together ? half(tape, 3, in) : Variable();
      const std::vector<Variable> of = {in[0], in[1], in[2]};
      for (const Variable& one : tape.gradients({first}, {dO}, of)) found.push_back(one.value().to_vector<double>());
      if (!together) half(tape, 3, in);
    }
    return found;
  };
  const Bytes expected = gradients(false), found = gradients(true);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size());
    for (size_t k = 0; k < found[i].size(); ++k) {
      ASSERT_NEAR(found[i][k], expected[i][k], 1e-11 * std::max(1.0, std::abs(expected[i][k]))) << i;
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"performer", "gmm-rks", "gmm-prf", "fastfood-rks", "generative-prf"}) {
    for (const int64_t redraw : {1, 3, 100}) all.push_back({name, redraw});
  }
  for (const char* name : {"gmm-rks", "gmm-prf", "generative-prf"}) all.push_back({name, 1, "released"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, Redraw, testing::ValuesIn(cases()), [](const auto& tested) {
  std::string name = tested.param.name();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

/// At which of twelve forward passes, two per step, the frequencies differed from the previous ones.
std::vector<int> draws(const Case& tested, bool told) {
  Generator init(4), noise(5);
  const auto mechanism = make_mechanism({}, 2, kDim, tested.options(), init);
  std::vector<double> before = mechanism->frequencies().to_vector<double>();
  std::vector<int> found;
  for (int i = 0; i < 12; ++i) {
    Context context{noise, true, told ? i / 2 : Context::kEachForward};
    const Variable x = values(1).cast(DType::f32);
    mechanism->forward(x, x, x, {}, context);
    const std::vector<double> now = mechanism->frequencies().to_vector<double>();
    if (now != before) found.push_back(i);
    before = now;
  }
  return found;
}

TEST(RedrawSchedules, CountStepsWhereTheContextTellsThem) {
  EXPECT_EQ(draws({"gmm-prf", 2}, true), (std::vector<int>{4, 8}));
  EXPECT_EQ(draws({"gmm-prf", 5}, true), (std::vector<int>{10}));
  EXPECT_EQ(draws({"gmm-prf", 5}, false), (std::vector<int>{5, 10}));
  EXPECT_EQ(draws({"gmm-prf", 0}, true), (std::vector<int>{}));
  EXPECT_EQ(draws({"gmm-prf", 7, "released"}, true), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(RedrawSchedules, FeaturesAreDrawnFromWhatAllExamplesShare) {
  const auto drawn = [](uint64_t own) {
    Generator init(1), noise(own), shared(9);
    GaussianFrequencies frequencies({}, 4, 3, {1, false}, init);
    std::vector<float> last;
    for (int64_t step = 0; step < 2; ++step) {  // at the first step nothing is due
      Context context{noise, true, step, &shared};
      last = frequencies.frequencies(context).values.value().to_vector<float>();
    }
    return last;
  };
  EXPECT_EQ(drawn(2), drawn(3));
}

TEST(RedrawSchedules, RunningStatisticsMoveOnceWhereABlockRunsAgain) {
  const auto run = [](bool again) {
    BatchNorm1d norm({}, 4, {.momentum = std::nullopt});
    Generator noise(1);
    Tape tape;
    Variable x = tape.watch(values(1, {5, 4}).cast(DType::f32));
    const auto block = [&](const std::vector<Variable>& in) { return norm.forward(in[0], true) + 1; };
    for (int i = 0; i < 2; ++i) x = again ? recompute(block, {x}, noise) : block({x});
    tape.backward(sum(x * x));
    Bytes all;
    for (const auto& [name, tensor] : norm.state()) all.push_back(tensor.to_vector<double>());
    for (const Parameter* one : norm.parameters()) all.push_back(one->grad.to_vector<double>());
    return all;
  };
  EXPECT_EQ(run(true), run(false));
}

// A block within a block: the inner one runs three times, and its state moves once.
TEST(RedrawSchedules, BlocksWithinBlocksCountOnce) {
  Generator noise(1);
  int count = 0;
  std::vector<double> seen;
  Tape tape;
  const Variable x = tape.watch(values(1, {3}));
  const auto inner = [&](const std::vector<Variable>& in) {
    const Tensor drawn = once([&] {
      ++count;
      return normal({3}, noise, 0, 1, DType::f64);
    });
    seen.push_back(drawn.to_vector<double>()[0]);
    return in[0] * Variable(drawn) * Variable(normal({3}, noise, 0, 1, DType::f64));
  };
  const auto outer = [&](const std::vector<Variable>& in) { return recompute(inner, {in[0] * in[0]}, noise); };
  const Variable y = recompute(outer, {x}, noise);
  const uint64_t place = noise.offset();
  const Tensor dx = tape.gradients(sum(y), {x})[0].value();
  EXPECT_EQ(count, 1);
  EXPECT_EQ(seen, std::vector<double>(3, seen[0]));
  EXPECT_EQ(noise.offset(), place);
  const std::vector<double> a = dx.to_vector<double>(), b = (y * 2 / x).value().to_vector<double>();
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
}

// A forward pass in evaluation, whose gradients are wanted, followed by one in training.
TEST(RedrawSchedules, RunningStatisticsMayMoveBeforeBackward) {
  BatchNorm1d norm({}, 4);
  const Tensor x = values(1, {5, 4}).cast(DType::f32);
  const auto weight_gradient = [&](bool moved) {
    norm.clear_gradients();
    Tape tape;
    const Variable y = norm.forward(x, false);
    if (moved) norm.forward(x * 3, true);
    tape.backward(sum(y * Variable(x)));
    return norm.parameters()[0]->grad.to_vector<double>();
  };
  const std::vector<double> expected = weight_gradient(false);
  EXPECT_EQ(weight_gradient(true), expected);
}

}  // namespace
}  // namespace bochner
