// A pretrained model fitted to a task: what of the Problem does not depend on the task, and what follows each run.
//
//   Fitted fitted = fitted_problem(model, states, adapted, config.model);   // still without examples and objective
//   fit_runs(session, plan, {config.model, config.run, config.optim, pretrained, states, few, make_problem});
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "experiments/common/program/program.h"
#include "experiments/learners/adaptation/adapted.h"
#include "experiments/learners/adaptation/frozen_trunk.h"
#include "experiments/learners/learner.h"

namespace bochner {

/// What is learnt, with its model and what was added to that.
struct Fitted {
  Problem problem;
  std::shared_ptr<PretrainedModel> model;
  std::optional<Peft> added;
  /// The training set in order and unchanged, whatever training does with it: what a closed form is fitted to.
  std::function<std::unique_ptr<Feed>()> in_order = {};
};

/// Scores of the classifier from `states` of a batch, or from those that a FrozenTrunk put there; the parameters that
/// the method trains; and of `adapted.base` the weights that it leaves as they are, which need not be in checkpoints.
Fitted fitted_problem(const std::shared_ptr<PretrainedModel>& model, const StatesOf& states, Adapted adapted,
                      const AdaptationConfig& config);

/// What a program fits.
struct Fitting {
  const AdaptationConfig& config;
  const RunOptions& run;
  const OptimConfig& optim;
  std::filesystem::path pretrained;  ///< empty: the model is new
  StatesOf states;                   ///< as in fitted_problem
  Examples few;                      ///< whose scores are timed (cost.h)
  /// The problem of the current seed, by fitted_problem. A frozen trunk's states stay in this memory.
  std::function<Fitted(const std::shared_ptr<TrunkStates>&)> problem;
};

/// train_runs of such problems. With --model.ridge the bundled pooler and classifier begin with their closed form on
/// the training set (SNNK J.3): least squares of the scores, or of 1 for the class and 0 for the others, on the
/// features of the frozen model; an Error with --init, which changes that later. A run's record gets what its model
/// costs. Where the method adds something to a frozen model, the run's folder gets that in a folder `adapter`
/// (layers/models/peft.h), with the classifier, and with the pooler if that is not the pretrained one; where --init has
/// changed what is frozen, or attention or all weights are others than the folder's, a warning says what to do instead.
void fit_runs(Session& session, const TrainPlan& plan, const Fitting& fitting);

}  // namespace bochner
