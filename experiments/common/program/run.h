// From a loaded config to a finished run folder: the one call that an experiment's main() makes.
//
//   void train(Config& config, Session& session) {
//     train_runs(session, {.steps = config.run.steps, .evaluate_every = 500},
//                [&] { return std::make_unique<LraModel>(config); });
//   }
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "experiments/common/program/program.h"
#include "experiments/common/report/report.h"
#include "experiments/common/run/trainer.h"

namespace bochner {

/// Makes the model for the current config, whose seed differs from run to run.
using MakeTrainable = std::function<std::unique_ptr<Trainable>()>;

/// Trains one run for each of the `--seeds` into the run folder that the options name, with results.json and
/// report.html, and adds them to the session's records. With --resume, finished runs are not touched. In a rehearsal it
/// does nothing.
void train_runs(Session& session, const TrainPlan& plan, const MakeTrainable& make);

/// Trains one run into `folder`; if it is already finished, restores the results of its best checkpoint. If the run is
/// refused before its first step, no folder is left behind.
RunRecord train_run(Session& session, const TrainPlan& plan, RunFolder folder, const MakeTrainable& make);

/// An Error if a run that the options ask for would find its folder taken, nothing to resume, or no initial weights
/// where `--init` is given. train_runs() calls it first; a program should call it itself before it reads or makes data.
void require_places(const Session& session);

/// `task-attention-preset-seed1`, or `...-seeds1-3`.
std::string run_name(const RunOptions& options);
/// The folder below runs/ for runs with these options if --out names none.
std::filesystem::path folder_of_runs(const Experiment& experiment, const RunOptions& options);

}  // namespace bochner
