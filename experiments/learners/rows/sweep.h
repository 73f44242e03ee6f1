// Many networks in one call: the plain one for each width of its last hidden layer, and one with an SNNK layer for each
// width and number of features (SNNK Figs. 6 and 9).
//
//   ./run uci --preset=quick --sweep.hidden=64,512 --sweep.features=8,32,128 --seeds=3
#pragma once

#include <vector>

#include "experiments/common/program/program.h"
#include "experiments/common/program/run.h"
#include "experiments/learners/rows/config.h"

namespace bochner::rows {

struct SweepConfig {
  std::vector<int64_t> hidden;
  std::vector<int64_t> features;

  void fields(Fields& f);
  bool asked() const { return !hidden.empty() || !features.empty(); }
};

/// The folder of the sweep's runs: --out, or one named after the options. An Error if it holds runs already and the
/// session does not resume.
std::filesystem::path folder_of_sweep(const Session& session);

/// Trains all of them, each in a run folder below `folder`; `make` reads `model` and the session's options, which are
/// set for each run. Writes sweep.csv there, with a line for each run, and report.html, with a figure of the test
/// metric plan.best_by against the number of parameters. If the session resumes, finished runs are not trained again.
void run_sweep(Session& session, const std::filesystem::path& folder, ModelConfig& model, SweepConfig& sweep,
               const TrainPlan& plan, const MakeTrainable& make);

}  // namespace bochner::rows
