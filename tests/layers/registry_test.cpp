// What every name of the attention registry promises, checked for each of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "engine/allocator.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/parallel.h"
#include "tests/engine/ops/oracle.h"
#include "tests/layers/every_mechanism.h"

namespace bochner {
namespace {

TEST_P(EveryMechanism, KeepsTheShape) {
  for (const int64_t length : {1, 7, 64, 65, 130}) {
    const Shape shape{2, kHeads, length, kDim};
    const auto mechanism = make();
    Generator noise(1);
    Context context{noise, true};
    EXPECT_EQ(mechanism->forward(values(shape, 1), values(shape, 2), values(shape, 3), {}, context).shape(), shape);
  }
}

TEST_P(EveryMechanism, GradientsOfInputsAndParametersAgreeWithDifferences) {
  for (const bool causal : {false, true}) {
    if (causal && !info().causal) continue;
    const auto mechanism = make({{"redraw", 0}, {"eps", 0}, {"denominator-eps", 0}});
    const Shape shape{2, kHeads, 5, kDim};
    std::vector<Tensor> inputs = {values(shape, 4), values(shape, 5), values(shape, 6)};
    const std::vector<Parameter*> parameters = mechanism->parameters();
    for (const Parameter* parameter : parameters) inputs.push_back(parameter->value.clone());
    Mask mask;
    mask.causal = causal;
    mask.keys = Tensor::from<bool>({true, true, true, true, true, true, true, true, false, false}, {2, 5});
    const auto f = [&](const std::vector<Variable>& in) {
      // The parameters' values are set from the inputs; their gradients reach them through the tape's leaves.
      for (size_t i = 0; i < parameters.size(); ++i) parameters[i]->value.copy_(in[3 + i].value());
      Generator noise(1);
      Context context{noise, true};
      return mechanism->forward(in[0], in[1], in[2], mask, context);
    };
    const std::vector<Tensor> qkv(inputs.begin(), inputs.begin() + 3);
    EXPECT_EQ(gradcheck(
                  [&](const std::vector<Variable>& in) {
                    std::vector<Variable> all = in;
                    for (size_t i = 3; i < inputs.size(); ++i) all.push_back(inputs[i]);
                    return f(all);
                  },
                  qkv, {.tolerance = 1e-6}),
              "")
        << info().name << (causal ? " causal" : "");
    // Parameters: backward into `grad`, differences by hand.
    const Tensor projection = values(shape, 9);
    for (Parameter* parameter : parameters) parameter->grad = Tensor();
    {
      Tape tape;
      Generator noise(1);
      Context context{noise, true};
      const Variable y = mechanism->forward(inputs[0], inputs[1], inputs[2], mask, context);
      if (!y.tracked()) continue;
      tape.backward({y}, {projection});
    }
    const auto value = [&] {
      Generator noise(1);
      Context context{noise, true};
      return sum(mechanism->forward(inputs[0], inputs[1], inputs[2], mask, context).value() * projection).item();
    };
    for (Parameter* parameter : parameters) {
      ASSERT_TRUE(parameter->grad.defined()) << parameter->name;
      const std::vector<double> gradient = parameter->grad.to_vector<double>();
      for (int64_t i = 0; i < parameter->value.size(); i += 5) {
        const double difference = oracle::difference(value, parameter->value, i);
        EXPECT_NEAR(gradient[static_cast<size_t>(i)], difference, 1e-6 * std::max(1.0, std::abs(difference)))
            << parameter->name << " at " << i;
      }
    }
  }
}

TEST_P(EveryMechanism, PaddingChangesNothing) {
  const auto mechanism = make();
  const Shape shape{1, kHeads, 9, kDim};
  const Tensor Q = values(shape, 21);
  const Tensor K = values(shape, 22) * 3.0;
  const Tensor V = values(shape, 23);
  const auto alone = [](const Tensor& x) { return x.slice(2, 0, 6).clone(); };
  const std::vector<double> expected = attend(*mechanism, alone(Q), alone(K), alone(V), {});
  Mask mask;
  mask.keys = Tensor::from<bool>({true, true, true, true, true, true, false, false, false}, {1, 9});
  Generator noise(11);
  Context context{noise, false};
  const Tensor padded = mechanism->forward(Q, K, V, mask, context).value().slice(2, 0, 6);
  const std::vector<double> found = padded.to_vector<double>();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9);
}

TEST_P(EveryMechanism, LaterTokensChangeNothingEarlierWhereCausal) {
  if (!info().causal) GTEST_SKIP() << "this mechanism has no causal form";
  if (info().name == "none") GTEST_SKIP() << "returns V";
  const auto mechanism = make();
  const Shape shape{1, kHeads, 8, kDim};
  const Tensor Q = values(shape, 31);
  Tensor K = values(shape, 32);
  Tensor V = values(shape, 33);
  const auto early = [&] {
    Generator noise(11);
    Context context{noise, false};
    return mechanism->forward(Q, K, V, {{}, true}, context).value().slice(2, 0, 5).to_vector<double>();
  };
  const std::vector<double> before = early();
  K.slice(2, 5, 8).fill_(0.3);
  V.slice(2, 5, 8).fill_(-2);
  const std::vector<double> after = early();
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(after[i], before[i], 1e-13 * std::max(1.0, std::abs(before[i])));
}

TEST_P(EveryMechanism, RefusesACausalMaskWhereThereIsNoCausalForm) {
  if (info().causal) GTEST_SKIP() << "this mechanism has a causal form";
  const auto mechanism = make();
  const Shape shape{1, kHeads, 8, kDim};
  try {
    attend(*mechanism, values(shape, 1), values(shape, 2), values(shape, 3), {{}, true});
    FAIL() << "a causal mask was ignored";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(info().name + " has no causal form; these have one: softmax"),
              std::string::npos)
        << error.what();
  }
}

TEST_P(EveryMechanism, DiffersFromEveryOther) {
  // Common frequencies, so that two mechanisms would have to be the same function to agree.
  const Shape shape{1, kHeads, 40, kDim};
  const auto made = [&](const MechanismInfo& tested) {
    Generator init(3);
    auto mechanism = make_mechanism({}, kHeads, kDim, small(tested.name), init);
    mechanism->to(Device::cpu(), DType::f64);
    return mechanism;
  };
  const auto output = [&](Mechanism& mechanism) {
    return attend(mechanism, values(shape, 1), values(shape, 2), values(shape, 3), {});
  };
  const auto mechanism = made(info());
  const std::vector<double> mine = output(*mechanism);
  for (const MechanismInfo& other : mechanisms()) {
    if (other.name == info().name) continue;
    const auto theirs = made(other);
    // FastFood's variants start alike and differ in what they learn.
    const auto family = [](const std::string& name) { return name.substr(0, 12); };
    if (other.name.starts_with("fastfood") && family(other.name) == family(info().name)) {
      EXPECT_NE(theirs->parameters().size(), mechanism->parameters().size()) << other.name << " learns the same";
    } else {
      EXPECT_GT(apart(output(*theirs), mine), 1e-3) << other.name << " and " << info().name << " are the same";
    }
  }
}

TEST_P(EveryMechanism, DiffersAsReleasedWhereItSaysSo) {
  const bool reaches_far = info().name == "bigbird";  // it differs beyond 1024 tokens
  const Shape shape{1, kHeads, reaches_far ? 1200 : 40, kDim};
  const auto output = [&](const char* as) {
    const auto mechanism = make({{"as", as}});
    return attend(*mechanism, values(shape, 1), values(shape, 2), values(shape, 3), {});
  };
  const double difference = apart(output("paper"), output("released"));
  if (info().released.empty()) {
    EXPECT_EQ(difference, 0);
  } else if (info().name == "linear-elu") {
    EXPECT_EQ(difference, 0) << "it differs where keys are padded, and released_test.cpp shows how";
  } else {
    EXPECT_GT(difference, 1e-4) << info().released;
  }
  EXPECT_EQ(has("as"), !info().released.empty());
}

TEST_P(EveryMechanism, DiffersAsInSkyformersCodeWhereItSaysSo) {
  if (!has("as")) GTEST_SKIP() << "it has no variants";
  const Shape shape{1, kHeads, 120, kDim};
  const auto output = [&](const char* as) {
    const auto mechanism = make({{"as", as}});
    return attend(*mechanism, values(shape, 1), values(shape, 2), values(shape, 3), {});
  };
  if (info().skyformer == "as released") {
    EXPECT_EQ(apart(output("released"), output("skyformer")), 0);
  } else if (info().skyformer.empty()) {
    EXPECT_EQ(apart(output("paper"), output("skyformer")), 0);
  } else {
    EXPECT_GT(apart(output("paper"), output("skyformer")), 1e-4) << info().skyformer;
    EXPECT_GT(apart(output("released"), output("skyformer")), 1e-4) << info().skyformer;
  }
}

// The error of random features is measured against the kernel itself, without the sums of weights, so that it is that
// of a mean over M draws; the error of landmarks and projections, against the attention that they approximate. If no
// name in the registry is the exact kernel, the same mechanism with very many features is used instead.
TEST_P(EveryMechanism, ErrsLessWithMoreFeatures) {
  if (!has("features") || info().name == "synthesizer") GTEST_SKIP() << "it has none, or learns its matrix";
  const bool is_kernel = has("renormalise");
  const Shape shape{1, kHeads, 24, kDim};
  const Tensor Q = values(shape, 71) * 0.4, K = values(shape, 72) * 0.4, V = values(shape, 73);
  const auto made = [&](int64_t features, uint64_t seed) {
    const MechanismOptions options =
        small(info().name).set_known({{"eps", 0}, {"convolution", 0}, {"renormalise", false}, {"features", features}});
    Generator init(seed);
    auto mechanism = make_mechanism({}, kHeads, kDim, options, init);
    mechanism->to(Device::cpu(), DType::f64);
    // The S of fastfood-*-s starts with values computed from its own G; with another G it is no kernel of the same
    // name.
    for (Parameter* parameter : mechanism->parameters()) {
      if (info().name.starts_with("fastfood") && info().name.ends_with("-s")) parameter->value.fill_(1);
    }
    return mechanism;
  };
  const auto output = [&](Mechanism& mechanism, uint64_t seed) {
    Generator noise(seed);
    Context context{noise, false};
    return mechanism.forward(Q, K, V, {}, context).value().to_vector<double>();
  };
  constexpr int64_t kMany = 2048;
  const auto limit = made(kMany, 1);
  std::vector<double> truth;
  if (info().approximates == "softmax" && is_kernel) {
    const double scale = 1 / std::sqrt(static_cast<double>(kDim));
    truth = matmul(exp(matmul(Q * scale, K.transpose(2, 3))), V).to_vector<double>();
  } else if (info().approximates == "softmax" || info().approximates == "gaussian" ||
             info().approximates == "the Gaussian kernel") {
    Generator init(1);
    const std::string name = info().approximates == "softmax" ? "softmax" : "gaussian";
    const auto exact = make_mechanism({}, kHeads, kDim, name, init);
    truth = attend(*exact, Q, K, V, {});
  } else {
    truth = output(*limit, 1);
  }
  const auto error = [&](int64_t features) {
    double total = 0;
    for (uint64_t seed = 2; seed < 102; ++seed) {
      const auto mechanism = made(features, seed);
      for (Parameter* parameter : mechanism->parameters()) {
        for (const Parameter* same : limit->parameters()) {
          if (same->name == parameter->name && same->shape() == parameter->shape()) parameter->value.copy_(same->value);
        }
      }
      const std::vector<double> found = output(*mechanism, seed);
      for (size_t i = 0; i < found.size(); ++i) total += (found[i] - truth[i]) * (found[i] - truth[i]);
    }
    return total;
  };
  // The mean over 16 times as many draws has a 16th of the variance, up to chance. Rows of a FastFood block share their
  // G: 64 rows of 8 are 8 blocks.
  const double fewer = error(4);
  const double more = error(64);
  RecordProperty("ratio", std::to_string(fewer / more));
  EXPECT_GT(fewer, (!is_kernel ? 2 : info().name.starts_with("fastfood") ? 4 : 10) * more) << fewer / more;
}

// The memory held in forward and backward, at four times the length.
TEST_P(EveryMechanism, MemoryGrowsAsItsCostSays) {
  if (info().cost.find("L^2") != std::string::npos) GTEST_SKIP() << "it claims a cost of " << info().cost;
  const auto most = [&](int64_t length) {
    Generator generator(3);
    const auto mechanism = make_mechanism({}, 1, kDim, small(info().name, length), generator);
    const Shape shape{1, 1, length, kDim};
    const Tensor Q = normal(shape, generator), K = normal(shape, generator), V = normal(shape, generator);
    Context context{generator, true};
    Allocator& allocator = Allocator::of(Device::cpu());
    const int64_t before = allocator.stats().current_bytes;
    allocator.reset_peak();
    Tape tape;
    const std::vector<Variable> in = {tape.watch(Q), tape.watch(K), tape.watch(V)};
    tape.gradients({mechanism->forward(in[0], in[1], in[2], {}, context)}, {V}, in);
    return static_cast<double>(allocator.stats().peak_bytes - before);
  };
  const double growth = most(2048) / most(512);
  EXPECT_LT(growth, info().cost.find("sqrt L") != std::string::npos ? 8.8 : 4.8) << info().cost;
}

TEST_P(EveryMechanism, IsDeterminedByItsGeneratorWithAnyNumberOfThreads) {
  const Shape shape{3, kHeads, 70, kDim};
  const auto run = [&](int count) {
    const int before = threads();
    set_threads(count);
    const auto mechanism = make({{"redraw", 1}});
    const auto result = attend(*mechanism, values(shape, 41), values(shape, 42), values(shape, 43), {}, true);
    set_threads(before);
    return result;
  };
  EXPECT_EQ(run(1), run(2));
}

TEST_P(EveryMechanism, NoKeyAtAllGivesZeros) {
  if (info().name == "none") GTEST_SKIP() << "returns V";
  const auto mechanism = make();
  const Shape shape{1, kHeads, 4, kDim};
  for (const double entry : attend(*mechanism, values(shape, 51), values(shape, 52), values(shape, 53),
                                   {Tensor::zeros({1, 4}, DType::boolean), false})) {
    EXPECT_EQ(entry, 0);
  }
}

TEST_P(EveryMechanism, LargeInputsStayFinite) {
  const auto mechanism = make();
  mechanism->to(Device::cpu(), DType::f32);
  const Shape shape{1, kHeads, 20, kDim};
  const auto large = [&](uint64_t seed) { return (values(shape, seed) * 1e4).cast(DType::f32); };
  for (const double entry : attend(*mechanism, large(61), large(62), large(63), {})) {
    EXPECT_TRUE(std::isfinite(entry));
  }
}

TEST_P(EveryMechanism, DropsWeightsInTrainingAlone) {
  if (!has("dropout")) GTEST_SKIP() << "this mechanism drops no weights";
  const auto output = [&](double dropout, bool training) {
    const Shape shape{2, kHeads, 8, kDim};
    const auto mechanism = make({{"dropout", dropout}});
    return attend(*mechanism, values(shape, 1), values(shape, 2), values(shape, 3), {}, training);
  };
  EXPECT_EQ(output(0.5, false), output(0, false));
  EXPECT_NE(output(0.5, true), output(0, true));
}

TEST_P(EveryMechanism, SurvivesACheckpoint) {
  const auto mechanism = make({{"redraw", 3}});
  const Shape shape{1, kHeads, 5, kDim};
  attend(*mechanism, values(shape, 1), values(shape, 2), values(shape, 3), {}, true);
  std::map<std::string, Tensor> saved;
  for (const auto& [name, tensor] : mechanism->state()) saved[name] = tensor.clone();
  Generator other(77);
  const auto restored = make_mechanism({}, kHeads, kDim, small(info().name).set_known({{"redraw", 3}}), other);
  restored->to(Device::cpu(), DType::f64);
  restored->load_state(saved);
  EXPECT_EQ(attend(*restored, values(shape, 1), values(shape, 2), values(shape, 3), {}),
            attend(*mechanism, values(shape, 1), values(shape, 2), values(shape, 3), {}));
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryMechanism, testing::Range<size_t>(0, mechanisms().size()),
                         every_mechanism_name);

TEST(Registry, NamesTheNearestForAMistypedName) {
  try {
    mechanism_named("perfomer");
    FAIL() << "an unknown name was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the nearest is 'performer'"), std::string::npos) << error.what();
  }
}

TEST(Registry, SinkhornSortsWithNoiseInTrainingAlone) {
  const auto output = [](bool training, uint64_t seed) {
    Generator init(1), draw(2), noise(seed);
    const auto mechanism = make_mechanism({}, kHeads, kDim, small("sinkhorn").set_known({{"block", 2}}), init);
    const Shape shape{2, kHeads, 8, kDim};
    const Tensor Q = normal(shape, draw), K = normal(shape, draw), V = normal(shape, draw);
    Context context{noise, training};
    return mechanism->forward(Q, K, V, {}, context).value().to_vector<float>();
  };
  EXPECT_NE(output(true, 3), output(true, 4));
  EXPECT_EQ(output(false, 3), output(false, 4));
}

}  // namespace
}  // namespace bochner
