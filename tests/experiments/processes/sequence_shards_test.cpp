// Steps whose sequences are cut into slices: in one process, and in several.
#include <gtest/gtest.h>

#include "autograd/ops/slices.h"
#include "autograd/tape.h"
#include "engine/cpu/parts/packed_weights.h"
#include "experiments/common/process/arguments.h"
#include "experiments/common/run/results.h"
#include "experiments/learners/learner.h"
#include "experiments/learners/sequence/pretraining.h"
#include "tests/experiments/learner_problems.h"
#include "tests/experiments/processes/together.h"

namespace bochner {
namespace {

using namespace test;  // NOLINT: the problems

RunOptions in_slices(int64_t batch, int slices, int shards = 0) {
  RunOptions run = options_of(batch);
  run.shards = shards;
  run.sequence_shards = slices;
  return run;
}

Learner learner_of(const RunOptions& run, const EncoderOptions& options, int sequences = 1, double eps = 1e-3) {
  OptimConfig optim = adamw();
  optim.eps = eps;  // keys' biases have no gradient but rounding, which Adam would make as large as any
  return {run, optim, sequence::classification(run, options, task_of(sequences), judged_by_accuracy())};
}

/// Some steps on slices equal those on whole sequences, up to rounding.
void expect_same_steps(const EncoderOptions& options, int sequences, const RunOptions& run) {
  Learner whole = learner_of(options_of(run.batch), options, sequences);
  Learner parts = learner_of(run, options, sequences);
  for (int64_t step = 0; step < 5; ++step) {
    const StepResult a = whole.step(step);
    const StepResult b = parts.step(step);
    EXPECT_NEAR(a.loss.item(), b.loss.item(), 2e-6) << step;
    EXPECT_EQ(a.correct.item(), b.correct.item()) << step;
    EXPECT_EQ(b.count, a.count);
  }
  EXPECT_LT(apart(whole, parts), 5e-6);  // a step moves by 1e-3
  const Metrics expected = whole.evaluate(Split::test);
  ASSERT_FALSE(expected.empty());
  for (const auto& [name, value] : expected) EXPECT_NEAR(test::metric(parts, name), value, 2e-5) << name;
}

EncoderOptions with(const std::string& attention, EncoderOptions::Positions positions,
                    EncoderOptions::Pooling pooling) {
  EncoderOptions options = encoder(attention);
  options.attention.mechanism.set_known({{"redraw", 0}});
  options.positions = positions;
  options.pooling = pooling;
  return options;
}

TEST(SequenceShards, TheirGradientIsThatOfTheBatch) {
  using Positions = EncoderOptions::Positions;
  using Pooling = EncoderOptions::Pooling;
  for (const Pooling pooling : {Pooling::mean, Pooling::mean_padded, Pooling::cls, Pooling::first}) {
    for (const Positions positions : {Positions::learned, Positions::sinusoidal, Positions::rotary}) {
      const EncoderOptions options = with("performer", positions, pooling);
      SCOPED_TRACE(fmt::format("pooling {}, positions {}", static_cast<int>(pooling), static_cast<int>(positions)));
      expect_same_steps(options, 1, in_slices(12, 3));
    }
  }
}

TEST(SequenceShards, OfAllMechanismsThatTakeThem) {
  for (const MechanismInfo& info : mechanisms()) {
    if (!info.slices) continue;
    SCOPED_TRACE(info.name);
    EncoderOptions options = with(info.name, EncoderOptions::Positions::learned, EncoderOptions::Pooling::mean);
    options.attention.mechanism.set_known({{"kernel-eps", 1e-2}, {"denominator-eps", 1e-2}});
    if (info.name == "performer-trig" || info.name.find("rks") != std::string::npos)
      continue;  // sums of weights near 0
    expect_same_steps(options, 1, in_slices(8, 2));
  }
}

TEST(SequenceShards, AlsoOfPairsAndCausalAndInsideShards) {
  EncoderOptions options = with("performer", EncoderOptions::Positions::learned, EncoderOptions::Pooling::mean);
  expect_same_steps(options, 2, in_slices(12, 2));
  expect_same_steps(options, 1, in_slices(12, 2, 3));
  options.causal = true;
  expect_same_steps(options, 1, in_slices(12, 3, 2));
  expect_same_steps(options, 1, in_slices(12, 11));  // more slices than tokens, and than heads
}

/// The keys of all slices come to the queries of each; a CLS vector is a key of the first slice.
TEST(SequenceShards, OfSoftmaxInARing) {
  EncoderOptions options = with("softmax", EncoderOptions::Positions::rotary, EncoderOptions::Pooling::cls);
  expect_same_steps(options, 1, in_slices(12, 3));
  expect_same_steps(options, 2, in_slices(12, 2, 3));
  options.causal = true;
  options.pooling = EncoderOptions::Pooling::mean;
  expect_same_steps(options, 1, in_slices(12, 3));
  expect_same_steps(options, 1, in_slices(12, 11));  // more slices than tokens
}

// y = sum_k x_k:  dx_k = sum_j g_j
TEST(SequenceShards, TheGradientOfASumIsThatOfAllSlices) {
  const ShardTree tree(3, 1);
  SequenceSlices slices(alone(), tree);
  const auto body = [](SequenceSlice& slice) {
    Tape tape;
    const Variable x = tape.watch(Tensor::full({2}, slice.number() + 1));
    const Variable y = sum_over_slices(x, slice);
    EXPECT_EQ(y.value().to_vector<double>(), (std::vector<double>{6, 6}));
    const double weight = slice.number() == 1 ? 10 : slice.number();
    const Gradients dx = tape.gradients({y}, {Tensor::full({2}, weight)}, {x});
    EXPECT_EQ(dx[0].value().to_vector<double>(), (std::vector<double>{12, 12}));
  };
  slices.run(3, body, {});
}

TEST(SequenceShards, BlocksMayRunAgain) {
  for (const auto& [attention, causal] :
       {std::pair{"generative-prf", false}, {"generative-prf", true}, {"softmax", false}, {"softmax", true}}) {
    const auto losses = [name = attention, is_causal = causal](bool recompute) {
      EncoderOptions options = encoder(name);
      options.attention.mechanism.set_known({{"dropout", 0.2}});
      options.causal = is_causal;
      options.dropout = 0.2;
      options.recompute = recompute;
      Learner learner = learner_of(in_slices(8, 3), options);
      std::vector<double> all;
      for (int64_t step = 0; step < 5; ++step) all.push_back(learner.step(step).loss.item());
      return all;
    };
    EXPECT_EQ(losses(true), losses(false));
  }
}

TEST(SequenceShards, ReadThePackedWeightsOfTheSlicesBeforeThem) {
  const RunOptions run = in_slices(8, 3);
  Problem problem = sequence::classification(run, encoder("performer"), task_of(1), judged_by_accuracy());
  std::vector<int64_t> found;
  problem.forward = [&, forward = problem.forward](const Examples& examples, Context& context) {
    found.push_back(cpu::kept_packed_weights());
    return forward(examples, context);
  };
  Learner learner(run, adamw(), std::move(problem));
  for (int step = 0; step < 2; ++step) {
    found.clear();
    learner.step(step);
    ASSERT_EQ(found.size(), 3);
    EXPECT_EQ(found[0], 0) << "those of the step before";
    EXPECT_GT(found[1], 0);
    EXPECT_GE(found[2], found[1]);
  }
}

std::string message(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SequenceShards, RefuseWhatCannotBeCut) {
  const auto has_text = [](const std::string& all, const char* part) { return all.find(part) != std::string::npos; };
  const std::string whole = message([] { learner_of(in_slices(8, 2), encoder("skyformer")).step(0); });
  EXPECT_TRUE(has_text(whole, "skyformer needs whole sequences; these attentions take slices of them: softmax, "))
      << whole;
  for (const std::string name : {"performer", "softmax"}) {
    const std::string composed = message([&] {
      EncoderOptions options = encoder(name);
      options.attention.mechanism.set_known({{"streaming", false}});
      learner_of(in_slices(8, 2), options).step(0);
    });
    EXPECT_TRUE(has_text(composed, (name + " without streaming needs whole sequences").c_str())) << composed;
  }
  const TableSplit rows = line(64, 1);
  const std::string numbers = message([&] {
    const RunOptions run = in_slices(8, 2);
    const Learner learner(run, adamw(), of_numbers(run, rows));
  });
  EXPECT_TRUE(has_text(numbers, "--sequence-shards=2: only where whole sequences are classified")) << numbers;
  const std::string masked = message([] {
    const RunOptions run = in_slices(8, 2);
    EncoderOptions options = encoder("performer");
    ++options.vocabulary;
    const Learner learner(run, adamw(), sequence::masked_tokens(run, options, task_of(1), 0.15));
  });
  EXPECT_TRUE(has_text(masked, "--sequence-shards=2: only where whole sequences are classified")) << masked;
  const std::string accumulated = message([] {
    RunOptions run = in_slices(8, 2);
    run.accumulate = 2;
    learner_of(run, encoder("performer"));
  });
  EXPECT_TRUE(has_text(accumulated, "leave out one of them")) << accumulated;
}

class SlicesTogether : public UnderMpirun {};

TEST_F(SlicesTogether, AreTheSameBitsForAnyNumberOfProcessesAndThreads) {
  for (const Words& more :
       {Words{"--shards=2"}, Words{"--model.causal=true", "--attention=performer"},
        Words{"--model.pooling=cls", "--attention=softmax"}, Words{"--attention=performer", "--precision=bf16"}}) {
    const Words all = kLra + more + Words{"--sequence-shards=4", "--model.layers=2"};
    const bool softmax = argument(all, "attention") == "softmax";
    const Words command = softmax ? without_argument(without_argument(all, "model.features"), "model.redraw") : all;
    const std::string name = more.back().substr(2);
    const Ended alone = run(command + Words{"--steps=8", "--threads=1", "--out=alone-" + name});
    ASSERT_EQ(alone.code, 0) << alone.err;
    const TrainResult reference = read_run(folder_ / ("alone-" + name)).result;
    for (const auto& [processes, threads] : {std::pair{2, 2}, {3, 1}, {8, 1}}) {
      if (processes > 4 && more.size() > 1) continue;  // there are 4 slices
      const std::string out = fmt::format("of{}-{}", processes, name);
      const Words run_so = command + Words{"--steps=8", fmt::format("--threads={}", threads), "--out=" + out};
      const Ended ended = run(mpirun(processes, run_so));
      ASSERT_EQ(ended.code, 0) << ended.err;
      EXPECT_EQ(weights_of(out), weights_of("alone-" + name)) << out;
      EXPECT_EQ(read_run(folder_ / out).result.valid, reference.valid) << out;
    }
    const std::string cut = "cut-" + name;
    ASSERT_EQ(run(mpirun(3, command + Words{"--steps=4", "--threads=2", "--out=" + cut})).code, 0);
    EXPECT_NE(weights_of(cut), weights_of("alone-" + name));
    const Words rest = {BOCHNER_LRA, "--data=data", "--resume", "--steps=8", "--threads=2", "--out=" + cut};
    const Ended resumed = run(mpirun(2, rest));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(weights_of(cut), weights_of("alone-" + name));
    EXPECT_EQ(read_run(folder_ / cut).result.test, reference.test);
  }
}

TEST_F(SlicesTogether, TooManyAreRefused) {
  const Ended ended = run(kLra + Words{"--shards=65536", "--sequence-shards=65536"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(has(ended, "--shards=65536 --sequence-shards=65536: more than 65536 parts of a batch")) << ended.err;
}

TEST_F(SlicesTogether, ForTooManyProcessesAreRefused) {
  const Ended ended = run(mpirun(3, kLra + Words{"--sequence-shards=2"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(has(ended, "--shards=1 --sequence-shards=2: they make 2 parts, too few for 3 processes")) << ended.err;
  const Ended whole = run(mpirun(2, kLra + Words{"--sequence-shards=2", "--attention=skyformer"}));
  EXPECT_EQ(whole.code, 2);
  EXPECT_TRUE(has(whole, "skyformer needs whole sequences")) << whole.err;
  // What only a step can find leaves no run behind that would be in the way of the next try.
  for (const char* part : {"--model.convolution=3", "--model.pooling=max"}) {
    const Ended refused = run(mpirun(2, kLra + Words{"--sequence-shards=2", part, "--out=refused"}));
    EXPECT_EQ(refused.code, 2) << part;
    EXPECT_TRUE(has(refused, "--sequence-shards: the ")) << refused.err;
    EXPECT_TRUE(has(refused, "needs whole sequences; ")) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused")) << part;
  }
  const Ended others =
      run(mpirun(1, kLra + Words{"--sequence-shards=2"}) + Words{":", "-n", "1"} + kLra + Words{"--sequence-shards=3"});
  EXPECT_EQ(others.code, 2);
  EXPECT_TRUE(has(others, "the configuration differs between processes")) << others.err;
}

}  // namespace
}  // namespace bochner
