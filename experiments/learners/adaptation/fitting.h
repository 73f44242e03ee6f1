// A pretrained model fitted to a task: the parts of the Problem that do not depend on the task, and what is done after
// each run.
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

/// What is learnt, with its model and what was added to the model.
struct Fitted {
  Problem problem;
  std::shared_ptr<PretrainedModel> model;
  std::optional<Peft> added;
  /// The training set in order and unchanged, whatever training does with it: a closed form is fitted to this.
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
  /// The problem of the current seed, made with fitted_problem(). The states of a frozen trunk are kept in this memory.
  std::function<Fitted(const std::shared_ptr<TrunkStates>&)> problem;
};

/// Calls train_runs() with such problems. With --model.ridge, the bundled pooler and classifier begin with their closed
/// form on the training set (SNNK J.3): least squares of the scores, or of 1 for the class and 0 for the others, on the
/// features of the frozen model; an Error with --init, which would change that later. A run's record gets the costs of
/// its model. If the method adds something to a frozen model, that is written to a folder `adapter` in the run's folder
/// (layers/models/peft.h), with the classifier, and with the pooler if it is not the pretrained one. If --init has
/// changed what is frozen, or if the attention or all weights differ from the folder's, a warning says what to do
/// instead.
void fit_runs(Session& session, const TrainPlan& plan, const Fitting& fitting);

}  // namespace bochner
