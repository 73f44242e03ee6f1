// Steps whose batch is cut into shards, in one process.
#include <gtest/gtest.h>

#include <array>

#include "autograd/fused/dropout.h"
#include "experiments/learners/learner.h"
#include "layers/batch_norm.h"
#include "tests/engine/comm/in_threads.h"
#include "tests/experiments/learner_problems.h"

namespace bochner {
namespace {

using namespace test;  // NOLINT: the problems

RunOptions in_shards(int64_t batch, int shards) {
  RunOptions run = options_of(batch);
  run.shards = shards;
  return run;
}

std::string message(const RunOptions& run, const std::function<Problem()>& problem) {
  try {
    Learner learner(run, adamw(), problem());
    learner.step(0);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Shards, TheirGradientIsThatOfTheBatch) {
  const TaskData data = task_of(1);
  OptimConfig optim = adamw();
  optim.eps = 1e-3;  // keys' biases have no gradient but rounding, which Adam would make as large as any
  for (const int shards : {1, 3, 4}) {
    const auto learner = [&](const RunOptions& run) {
      return Learner(run, optim, sequence::classification(run, encoder("softmax"), data, judged_by_accuracy()));
    };
    Learner whole = learner(options_of(12));
    Learner parts = learner(in_shards(12, shards));
    for (int64_t step = 0; step < 6; ++step) {
      const StepResult a = whole.step(step);
      const StepResult b = parts.step(step);
      EXPECT_NEAR(a.loss.item(), b.loss.item(), 1e-6) << shards << " " << step;
      EXPECT_EQ(a.correct.item(), b.correct.item()) << shards << " " << step;
      EXPECT_EQ(b.count, a.count);
    }
    EXPECT_LT(apart(whole, parts), 1e-6) << shards;  // a step moves by 1e-3
    const Metrics a = whole.evaluate(Split::test);
    const Metrics b = parts.evaluate(Split::test);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i].second, b[i].second, 1e-6) << a[i].first;
  }
}

TEST(Shards, ProcessesTakeTheBatchesOfAnEvaluationInTurns) {
  constexpr int kProcesses = 2;
  std::array<int, kProcesses> passes{};
  in_threads(kProcesses, [&](Communicator& comm) {
    const RunOptions run = in_shards(8, 4);
    Problem problem = of_tokens(run);
    const auto forward = [of_problem = problem.forward, &mine = passes.at(static_cast<size_t>(comm.rank()))](
                             const Examples& examples, Context& context) {
      ++mine;
      return of_problem(examples, context);
    };
    problem.forward = forward;
    Learner learner(run, adamw(), std::move(problem));
    learner.share(comm);
    learner.evaluate(Split::test);  // 40 examples in batches of 16
  });
  EXPECT_EQ(passes, (std::array<int, kProcesses>{2, 1}));
}

TEST(Shards, ALossThatIsNotFiniteIsBlamedOnALayerUnlessSequencesAreCut) {
  const TaskData data = task_of(1);
  for (const auto& [shards, slices] : {std::pair{0, 1}, {4, 1}, {4, 2}}) {
    RunOptions run = in_shards(8, shards);
    run.sequence_shards = slices;
    Problem problem = sequence::classification(run, encoder("performer"), data, judged_by_accuracy());
    for (Parameter* parameter : problem.model->parameters()) {
      if (parameter->name.ends_with("feed_forward.in.weight")) parameter->value.fill_(INFINITY);
    }
    Learner learner(run, adamw(), std::move(problem));
    EXPECT_FALSE(std::isfinite(learner.step(0).loss.item()));
    const Blame blame = learner.blame(0);
    EXPECT_EQ(std::ssize(blame.examples), 8);
    EXPECT_EQ(blame.layer.find("feed_forward") != std::string::npos, slices == 1) << blame.layer;
  }
}

TEST(Shards, AreWeighedByTheirTerms) {
  Learner whole(options_of(8), adamw(), of_tokens(options_of(8)));
  Learner parts(in_shards(8, 8), adamw(), of_tokens(in_shards(8, 8)));
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_NEAR(whole.step(step).loss.item(), parts.step(step).loss.item(), 1e-6);
  }
  EXPECT_LT(apart(whole, parts), 1e-5);
}

TEST(Shards, BeginWithTheSameBuffers) {
  const TaskData data = task_of(1);
  EncoderOptions options = encoder("performer");
  options.attention.mechanism.set_known({{"redraw", 1}});  // so that each step changes them
  const RunOptions run = in_shards(8, 4);
  Learner learner(run, adamw(), sequence::classification(run, options, data, judged_by_accuracy()));
  for (int64_t step = 0; step < 4; ++step) EXPECT_NO_THROW(learner.step(step)) << step;
}

TEST(Shards, DropByThemselvesAndShareWhatAllExamplesShare) {
  const TableSplit rows = line(8, 1);
  const RunOptions run = in_shards(8, 2);
  Problem problem = of_numbers(run, rows);
  std::vector<std::vector<float>> dropped;
  std::vector<uint32_t> shared;
  problem.forward = [&, forward = problem.forward](const Examples& examples, Context& context) {
    dropped.push_back(dropout(Variable(Tensor::full({64}, 1)), 0.5, context.generator).value().to_vector<float>());
    shared.push_back(context.of_all_examples().next());
    return forward(examples, context);
  };
  Learner learner(run, adamw(), std::move(problem));
  learner.step(0);
  learner.step(1);
  ASSERT_EQ(dropped.size(), 4U);
  EXPECT_NE(dropped[0], dropped[1]);
  EXPECT_NE(dropped[0], dropped[2]);
  EXPECT_EQ(shared[0], shared[1]);
  EXPECT_NE(shared[0], shared[2]);
}

TEST(Shards, RefusesWhatCannotBeCut) {
  const TableSplit rows = line(64, 1);
  EXPECT_EQ(message(in_shards(12, 8), [&] { return of_numbers(in_shards(12, 8), rows); }),
            "--shards=8: they do not divide a batch of 12 examples; choose a --batch or --shards that do");
  RunOptions both = in_shards(8, 2);
  both.accumulate = 2;
  EXPECT_NE(message(both, [&] { return of_numbers(both, rows); }).find("leave out one of them"), std::string::npos);
}

/// Normalises its inputs by statistics of the batch, which do not belong to any shard.
class Normalised final : public Module {
 public:
  explicit Normalised(Generator& init) : norm_(sub("norm"), 2), out_(sub("out"), 2, 1, init) {}
  Variable forward(const Tensor& x) { return out_.forward(norm_.forward(x, true)); }

 private:
  BatchNorm1d norm_;
  Linear out_;
};

TEST(Shards, RefusesStatisticsOfExamples) {
  const TableSplit rows = line(64, 1);
  const auto problem = [&](int shards) {
    Problem changed = of_numbers(in_shards(8, shards), rows);
    Generator init(1);
    const auto model = std::make_shared<Normalised>(init);
    changed.model = model;
    changed.forward = [model](const Examples& examples, Context&) -> Outputs {
      return {model->forward(examples.at("x"))};
    };
    return changed;
  };
  EXPECT_EQ(message(in_shards(8, 1), [&] { return problem(1); }), "");
  EXPECT_NE(message(in_shards(8, 4), [&] { return problem(4); })
                .find("norm.running_mean: shard 1 leaves it other than the shards before it"),
            std::string::npos);
}

}  // namespace
}  // namespace bochner
