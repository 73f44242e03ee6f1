// How kernel attention copes with sparsity (KL §4.2, Appendix E, Fig. 6, Table 14): sums over the positions that count,
// learning curves, and the gradients that reach the classifier.
#include "experiments/common/program/program.h"
#include "experiments/common/run/run.h"
#include "experiments/learners/sequence/learner.h"
#include "experiments/learners/sequence/unit_gradients.h"
#include "experiments/sparsity/config.h"
#include "experiments/sparsity/figures.h"

namespace {

using namespace bochner;            // NOLINT: a program, not a header
using namespace bochner::sparsity;  // NOLINT

class Learner final : public sequence::Learner {
 public:
  Learner(const Config& config, const TaskData& data)
      : sequence::Learner(config.run, config.encoder(), config.optim, data),
        repetitions_(config.gradients.repetitions),
        batch_(first(data.valid, config.gradients.examples)) {}

  /// In validation also gradient-mean, gradient-deviation and gradient-noise: those of Table 14, at each evaluation.
  Metrics evaluate(Split split) override {
    Metrics metrics = sequence::Learner::evaluate(split);
    if (split == Split::test) return metrics;
    Generator noise = evaluation_noise().fork(kGradientStream);
    const sequence::GradientStatistics found =
        sequence::gradient_statistics(sequence::unit_gradients(model(), batch_, repetitions_, noise));
    metrics.emplace_back(kGradientMean, found.absolute_mean);
    metrics.emplace_back(kGradientDeviation, found.deviation);
    metrics.emplace_back(kGradientNoise, found.noise);
    return metrics;
  }

 private:
  static constexpr uint64_t kGradientStream = 1;
  int64_t repetitions_;
  Batch batch_;
};

/// Refuses an impossible model before any data are made.
void check_model(const Config& config) {
  check(config.generator());
  Generator init(0);
  const SequenceClassifier model(config.encoder(), init);
}

void run(Config& config, Session& session) {
  check_model(config);
  const GeneratorOptions pairs = config.generator();
  session.log.info("sparsity: making {} + {} + {} sequences of {}, of which a share of {} counts", pairs.train,
                   pairs.valid, pairs.test, pairs.length, pairs.relevant);
  const TaskData data = load_task(pairs);
  const TrainPlan plan{.steps = config.run.steps, .evaluate_every = config.optim.evaluate_every};
  train_runs(session, plan, [&] { return std::make_unique<Learner>(config, data); });
}

}  // namespace

int main(int argc, char** argv) {
  bochner::Experiment experiment{"sparsity", "Sums over the positions that count: kernel attention and sparsity",
                                 bochner::embedded_resources()};
  experiment.stores_bf16 = true;
  experiment.derived = [](const bochner::RunRecord& run) { return crossings(run); };
  experiment.figures = [papers = bochner::PaperTable::parse(experiment.resources.paper)](
                           const std::vector<bochner::RunRecord>& runs) { return figures(runs, papers); };
  return bochner::main_of<Config>(experiment, argc, argv, run);
}
