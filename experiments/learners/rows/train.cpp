#include "experiments/learners/rows/train.h"

#include "experiments/learners/rows/problem.h"

namespace bochner::rows {

void train(Session& session, ModelConfig& model, const SnnkOptimConfig& optim, SweepConfig& sweep,
           const TableSplits& data, const std::string& best_by) {
  const RunOptions& run = session.options;
  for (const std::string& note : data.notes) session.log.info("{}", note);
  for (const std::string& doubt : doubts(run, data)) session.log.warning("{}", doubt);
  const TrainPlan plan = plan_by(metrics_named({best_by})[0], run, optim);
  const MakeTrainable make = [&] {
    return std::make_unique<Learner>(run, optim, classification(run, model, optim, data));
  };
  if (sweep.asked()) return run_sweep(session, model, sweep, plan, make);
  train_runs(session, plan, make);
}

}  // namespace bochner::rows
