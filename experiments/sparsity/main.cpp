// How kernel attention copes with sparsity (KL §4.2, Appendix E, Fig. 6, Table 14): sums over the relevant positions,
// learning curves, and the gradients that reach the classifier.
#include "experiments/common/program/program.h"
#include "experiments/common/program/run.h"
#include "experiments/learners/sequence/problem.h"
#include "experiments/learners/sequence/unit_gradients.h"
#include "experiments/sparsity/config.h"
#include "experiments/sparsity/figures.h"

namespace {

using namespace bochner;            // NOLINT: a program, not a header
using namespace bochner::sparsity;  // NOLINT

constexpr uint64_t kGradientStream = 1;  // a fork of the stream of evaluations

TaskEntry<TaskData> sums(const Config& config) {
  TaskEntry<TaskData> task;
  task.name = config.run.task;
  return task;
}

/// The sums over the relevant positions. Each evaluation on the validation set also reports gradient-mean,
/// gradient-deviation and gradient-noise of Table 14.
Problem problem_of(const Config& config, const TaskData& data) {
  Problem problem = sequence::classification(config.run, config.encoder(), data, sums(config));
  LoaderOptions first;
  first.batch_size = config.gradients.examples;
  first.max_length = data.task.max_length;
  first.least_length = sequence::least_length(config.encoder());
  first.shuffle = false;
  first.prefetch = 0;
  const Batch batch = Loader(data.valid, first).next().to(Device::named(config.run.device));
  problem.further = [batch, repetitions = config.gradients.repetitions, seed = config.run.seed,
                     model = std::static_pointer_cast<SequenceClassifier>(problem.model)](Split split, const Answers&,
                                                                                          Metrics& metrics) {
    if (split == Split::test) return;
    Generator noise = stream_of(seed, Stream::evaluation).fork(kGradientStream);
    const sequence::GradientStatistics found =
        sequence::gradient_statistics(sequence::unit_gradients(*model, batch, repetitions, noise));
    metrics.emplace_back(kGradientMean, found.absolute_mean);
    metrics.emplace_back(kGradientDeviation, found.deviation);
    metrics.emplace_back(kGradientNoise, found.noise);
  };
  return problem;
}

/// Refuses an impossible model before any data are made.
void check_model(const Config& config) {
  check(config.generator());
  Generator init(0);
  const SequenceClassifier model(config.encoder(), init);
}

void run(Config& config, Session& session) {
  check_model(config);
  require_places(session);
  const GeneratorOptions pairs = config.generator();
  session.log.info("sparsity: making {} + {} + {} sequences of {}, of which a share of {} counts", pairs.train,
                   pairs.valid, pairs.test, pairs.length, pairs.relevant);
  const TaskData data = load_task(pairs);
  session.after_run = [](RunRecord& run) {
    run.derived = crossings(run);
    return std::vector<ReportFigure>();
  };
  train_runs(session, plan_by(sums(config), config.run, config.optim),
             [&] { return std::make_unique<Learner>(config.run, config.optim, problem_of(config, data)); });
}

}  // namespace

int main(int argc, char** argv) {
  bochner::Experiment experiment{"sparsity", "Sums over the positions that count: kernel attention and sparsity",
                                 bochner::embedded_resources()};
  experiment.stores_bf16 = true;
  experiment.refused = {};
  experiment.figures = [papers = bochner::PaperTable::parse(experiment.resources.paper)](
                           const std::vector<bochner::RunRecord>& runs) { return figures(runs, papers); };
  return bochner::main_of<Config>(experiment, argc, argv, run);
}
