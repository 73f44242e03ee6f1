// Long Range Arena: trains a sequence classifier with any attention of the registry and tests it.
#include "datasets/baselines.h"
#include "experiments/common/program/program.h"
#include "experiments/common/run/run.h"
#include "experiments/learners/sequence/learner.h"
#include "experiments/lra/config.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

class ListopsLearner final : public sequence::Learner {
 public:
  using Learner::Learner;
  std::vector<Baseline> baselines() override {
    std::vector<Baseline> all = Learner::baselines();
    all.push_back(
        {"best guess from the first operator", {{"accuracy", first_token_accuracy(*data().train, *data().test)}}});
    return all;
  }
};

EncoderOptions model_of(const lra::Config& config, const Task& task) {
  return encoder_options(config.model, config.run.attention, task);
}

/// Refuses an impossible model or training before any data are made.
void check(const lra::Config& config) {
  config.optim.schedule_of(config.run.steps);
  Generator init(0);
  const SequenceClassifier model(model_of(config, listops::task(config.listops_options())), init);
}

void run(lra::Config& config, Session& session) {
  check(config);
  const TaskData data =
      listops::load_task(config.listops_options(), [&](const std::string& line) { session.log.info("{}", line); });
  config.listops.state_found(data);
  const TrainPlan plan{.steps = config.run.steps, .evaluate_every = config.optim.evaluate_every};
  train_runs(session, plan, [&] {
    return std::make_unique<ListopsLearner>(config.run, model_of(config, data.task), config.optim, data);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<bochner::lra::Config>(
      {.name = "lra",
       .summary = "Long Range Arena: classification of long sequences, with any attention of the registry",
       .resources = bochner::embedded_resources(),
       .stores_bf16 = true},
      argc, argv, run);
}
