#include "experiments/learners/rows/train.h"

#include "engine/error.h"
#include "experiments/common/run/answer.h"
#include "experiments/learners/rows/problem.h"

namespace bochner::rows {

void Config::fields(Fields& f) {
  run.fields(f);
  f.at("attention").means("kind of the last hidden layer; A,B,... runs with each and compares them");
  fields_of(tasks, f);
  f.group("model", model);
  f.group("optim", optim);
  f.group("sweep", sweep);
  f.at("sweep.features").only("with an SNNK layer, --attention=snnk-...", snnk_layer(f));
}

void train(Config& config, Session& session) {
  const RunOptions& run = config.run;
  const RowTask& task = task_named(config.tasks, run.task);
  std::filesystem::path folder;
  if (config.sweep.asked() && (run.bench || asks_a_run(run))) {
    fail("--sweep: trains networks; leave it out beside --evaluate, --predict and --bench");
  }
  if (config.sweep.asked()) {
    folder = folder_of_sweep(session);
  } else {
    require_places(session);
  }
  TableSplits data = config.load(messages_to(session.log));
  session.log.info("{}: {} + {} + {} rows of {} columns, {} classes; split {}", run.task, data.train.rows(),
                   data.valid.rows(), data.test.rows(), data.train.features.size(1), data.classes, data.rule);
  for (const std::string& note : data.notes) session.log.info("{}", note);
  for (const std::string& doubt : doubts(run, data)) session.log.warning("{}", doubt);
  const TrainPlan plan = plan_by(task, run, config.optim);
  const MakeTrainable make = [&] {
    return std::make_unique<Learner>(run, config.optim, classification(run, config.model, config.optim, data, task));
  };
  if (config.sweep.asked() && session.comm.size() > 1) {
    fail("--sweep: takes one process, but there are {}", session.comm.size());
  }
  if (config.sweep.asked() && !session.rehearsal)
    return run_sweep(session, folder, config.model, config.sweep, plan, make);
  train_runs(session, plan, make);
}

}  // namespace bochner::rows
