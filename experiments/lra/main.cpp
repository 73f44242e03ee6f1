// Long Range Arena: trains a sequence classifier with any attention of the registry and tests it.
#include "datasets/baselines.h"
#include "experiments/common/program/program.h"
#include "experiments/common/run/run.h"
#include "experiments/learners/sequence/problem.h"
#include "experiments/lra/config.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

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
  const std::vector<std::string> metrics = {"loss", "accuracy"};
  const TrainPlan plan = plan_by(metrics_named({"accuracy"})[0], config.run, config.optim);
  train_runs(session, plan, [&] {
    Problem problem = sequence::classification(config.run, model_of(config, data.task), data, metrics);
    problem.baselines = [&, majority = problem.baselines] {
      std::vector<Baseline> all = majority();
      all.push_back(
          {"best guess from the first operator", {{"accuracy", first_token_accuracy(*data.train, *data.test)}}});
      return all;
    };
    return std::make_unique<Learner>(config.run, config.optim, std::move(problem));
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
