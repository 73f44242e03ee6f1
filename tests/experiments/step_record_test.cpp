// Steps that are written for another implementation: everything it needs is there, and repeats them.
#include "experiments/learners/step_record.h"

#include <gtest/gtest.h>

#include "layers/loss.h"
#include "tests/experiments/learner_problems.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using namespace test;  // NOLINT: the problems

class StepRecord : public testing::TestWithParam<int> {
 protected:
  Problem problem() const {
    return sequence::classification(run_, encoder("gmm-prf"), task_of(GetParam()), judged_by_accuracy());
  }
  TensorMap made() const {
    Problem learnt = problem();
    const std::shared_ptr<Module> model = learnt.model;
    Learner learner(run_, adamw(), std::move(learnt));
    return recorded_steps(learner, *model, *problem().train, 6);
  }
  RunOptions run_ = options_of(8);
};

TEST_P(StepRecord, IsThatOfALearnerThatIsNotWatched) {
  const TensorMap record = made();
  const Problem fresh = problem();
  for (const auto& [name, tensor] : fresh.model->state()) {
    EXPECT_EQ(record.at("weights." + name).to_vector<double>(), tensor.to_vector<double>()) << name;
  }
  Learner alone(run_, adamw(), problem());
  const std::vector<double> losses = record.at("losses").to_vector<double>();
  ASSERT_EQ(losses.size(), 6U);
  for (int64_t step = 0; step < 6; ++step) {
    EXPECT_EQ(losses[static_cast<size_t>(step)], alone.step(step).loss.item()) << step;
  }
  EXPECT_NE(losses[0], losses[5]);
}

// A model with the recorded weights, moved by a separate optimizer on the recorded batches. Its random features are
// redrawn at every second step, from the recorded noise.
TEST_P(StepRecord, IsEnoughToRepeatTheSteps) {
  const TensorMap record = made();
  const Problem again = problem();
  for (const auto& [name, tensor] : again.model->state()) {
    tensor.fill_(0);
    tensor.copy_(record.at("weights." + name));
  }
  AdamW optimizer(again.model->parameters(), {.weight_decay = 0});
  const std::vector<double> losses = record.at("losses").to_vector<double>();
  const std::vector<int64_t> noise = record.at("noise").to_vector<int64_t>();
  for (int64_t step = 0; step < 6; ++step) {
    Examples batch;
    for (const char* name : {"ids", "mask", "labels"}) {
      batch.tensors.emplace_back(name, record.at(fmt::format("step.{}.{}", step, name)));
    }
    const auto at = static_cast<size_t>(2 * step);
    Generator generator(static_cast<uint64_t>(noise[at]), static_cast<uint64_t>(noise[at + 1]));
    Context context{generator, true, step};
    Tape tape;
    const Variable loss = CrossEntropyLoss{}(again.forward(batch, context)[0], batch.at("labels"));
    EXPECT_NEAR(loss.item(), losses[static_cast<size_t>(step)], 1e-6) << step;
    tape.backward(loss);
    optimizer.step(1e-3);
    optimizer.clear_gradients();
  }
}

INSTANTIATE_TEST_SUITE_P(TextsAndPairs, StepRecord, testing::Values(1, 2));

TEST(StepRecordOfLra, IsWrittenWithItsSettingsAndWithoutARun) {
  const TemporaryFolder folder;
  const auto lra = [&](const std::string& steps) {
    return Process({BOCHNER_LRA, "--random-data", "--task=image", "--attention=skyformer", "--model.layers=1",
                    "--model.dim=8", "--model.hidden=8", "--model.features=4", "--batch=2", "--threads=1",
                    "--steps=" + steps, "--record=there/a.safetensors"},
                   folder.path())
        .wait();
  };
  const Ended ended = lra("3");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "there/a.safetensors\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
  const Safetensors file = read_safetensors(folder / "there/a.safetensors");
  EXPECT_EQ(file.tensors.at("losses").size(), 3);
  EXPECT_EQ(file.tensors.at("step.2.ids").shape(), Shape({2, 1024}));
  EXPECT_EQ(file.metadata.at("attention"), "skyformer");
  EXPECT_EQ(file.metadata.at("max_length"), "1024");
  EXPECT_NE(file.metadata.at("config").find("\"gamma\": 0.1"), std::string::npos);
  // Each block draws landmarks in each step, so each step has its own noise.
  const std::vector<int64_t> noise = file.tensors.at("noise").to_vector<int64_t>();
  EXPECT_EQ(noise[0], noise[2]);
  EXPECT_LT(noise[1], noise[3]);
  const Ended none = lra("0");
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("there is nothing to record in --steps=0"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace bochner
