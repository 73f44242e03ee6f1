#include "experiments/learners/adaptation/fitting.h"

#include "engine/ops/join.h"
#include "experiments/common/program/run.h"
#include "experiments/common/run/answer.h"
#include "experiments/learners/adaptation/cost.h"
#include "experiments/learners/adaptation/methods.h"
#include "experiments/learners/task.h"

namespace bochner {
namespace {

constexpr int64_t kFitBatches = 32;

Variable states_in(const Examples& batch, PretrainedModel& model, const StatesOf& states, Context& context) {
  return batch.has("states") ? batch.at("states") : states(model, batch, context);
}

void keep_frozen(Problem::Base& base, const std::vector<GroupRule>& rules) {
  std::set<std::string> frozen;
  for (const GroupRule& rule : rules) {
    if (rule.frozen && base.tensors.contains(rule.pattern)) frozen.insert(rule.pattern);
  }
  base.tensors = std::move(frozen);
}

/// The scores of a batch, or 1 at the class and 0 elsewhere.  (n, outputs)
Tensor target_of(const Examples& batch, int64_t outputs) {
  if (outputs == 1) return batch.at("values").reshape({batch.size(), 1});
  std::vector<float> targets(static_cast<size_t>(batch.size() * outputs));
  const std::vector<int64_t> labels = batch.at("labels").to_vector<int64_t>();
  for (size_t i = 0; i < labels.size(); ++i)
    targets[i * static_cast<size_t>(outputs) + static_cast<size_t>(labels[i])] = 1;
  return Tensor::from(targets, {batch.size(), outputs});
}

void fit_bundle(const AdaptationConfig& config, const RunOptions& run, Feed& examples, PretrainedModel& model,
                const StatesOf& states) {
  Bundle* bundle = model.bundled_pooler();
  if (bundle == nullptr) fail("--model.ridge={}: only the method bundle has a closed form", config.ridge);
  const Device device = Device::named(run.device);
  const int64_t outputs = model.classes();
  model.to(device, DType::f32);
  const NoTape inference;
  Generator unused(0);
  Context context{unused, false};
  RidgeFit regression(bundle->weight().shape()[1], outputs);
  std::vector<Tensor> features;  // one QR of many rows is faster
  std::vector<Tensor> targets;
  const int64_t batches = examples.steps_per_epoch();
  for (int64_t i = 1; i <= batches; ++i) {
    const Examples batch = examples.next();
    features.push_back(model.pool(states_in(batch.to(device), model, states, context)).value().to(Device::cpu()));
    targets.push_back(target_of(batch, outputs));
    if (i % kFitBatches != 0 && i != batches) continue;
    regression.add(concat(features, 0), concat(targets, 0));
    features.clear();
    targets.clear();
  }
  const RidgeFit::Solution solution = regression.solve(config.ridge);
  bundle->weight().value.copy_(solution.weight.cast(DType::f32).to(device));
  bundle->bias()->value.copy_(solution.bias.cast(DType::f32).to(device));
}

void write_adapter(const Fitting& fitting, PretrainedModel& model, const std::optional<Peft>& added,
                   const RunRecord& record, Log& log) {
  if (!added || fitting.pretrained.empty()) return;
  if (fitting.run.attention != "softmax" || fitting.config.from_scratch) {
    const std::string why = fitting.config.from_scratch
                                ? "whose weights --model.from-scratch leaves out"
                                : "where the attention " + fitting.run.attention + " may have drawn other values";
    log.warning("no folder `adapter` is written: it would not belong to {}, {}; take this run over with --init",
                fitting.pretrained.string(), why);
    return;
  }
  if (record.init != "null" && !leaves_out_weights(best_of(record.folder))) {
    log.warning(
        "no folder `adapter` is written: --init={} has changed the frozen weights, and so it would not belong to {}; "
        "export that run, and name its folder with --pretrained in the place of --init",
        fitting.run.init, fitting.pretrained.string());
    return;
  }
  save_adapter(model, *added, record.folder / "adapter", fitting.pretrained.string());
}

}  // namespace

Fitted fitted_problem(const std::shared_ptr<PretrainedModel>& model, const StatesOf& states, Adapted adapted,
                      const AdaptationConfig& config) {
  Fitted fitted{.problem = {}, .model = model, .added = std::move(adapted.added)};
  Problem& problem = fitted.problem;
  problem.model = model;
  problem.forward = [model, states](const Examples& batch, Context& context) -> Outputs {
    return {model->class_scores(model->pool(states_in(batch, *model, states, context)), context)};
  };
  problem.groups = rules_of(method_of(config), config, *model);
  problem.base = std::move(adapted.base);
  keep_frozen(problem.base, problem.groups);
  return fitted;
}

void fit_runs(Session& session, const TrainPlan& plan, const Fitting& fitting) {
  fitting.optim.schedule_of(fitting.run.steps);  // refuses contradictory settings
  const bool closed = fitting.config.ridge >= 0 && !asks_a_run(fitting.run);
  if (closed && !fitting.run.init.empty()) {
    fail(
        "--init={}: would change the weights behind the closed form of --model.ridge={}; export that run, and name its "
        "folder with --pretrained instead",
        fitting.run.init, fitting.config.ridge);
  }
  const auto memory = std::make_shared<TrunkStates>(messages_to(session.log).say, session.comm);
  std::shared_ptr<PretrainedModel> model;  // of the latest run
  std::function<Outputs(const Examples&, Context&)> forward;
  std::optional<Peft> added;
  session.after_run = [&](RunRecord& record) {
    write_adapter(fitting, *model, added, record, session.log);
    const Examples inputs = fitting.few.to(Device::named(fitting.run.device));
    record.derived = cost_of(*model, [&](Context& context) { return forward(inputs, context)[0]; });
    return std::vector<ReportFigure>();
  };
  train_runs(session, plan, [&] {
    Fitted fitted = fitting.problem(memory);
    model = fitted.model;
    forward = fitted.problem.forward;
    added = fitted.added;
    if (closed) fit_bundle(fitting.config, fitting.run, *fitted.in_order(), *model, fitting.states);
    return std::make_unique<Learner>(fitting.run, fitting.optim, std::move(fitted.problem));
  });
}

}  // namespace bochner
