// --analyse RUN: what the papers report about a trained model, computed from the best model of a run. The numbers are
// written to analysis.json next to its results, figures and tables to analysis.html.
#pragma once

#include "experiments/common/program/program.h"

namespace bochner::lra {

struct Config;

struct AnalysisConfig {
  int64_t examples = 500;
  int64_t evaluations = 100;
  int64_t updates = 20;

  void fields(Fields& f);
};

/// Analyses the run in config.analyse; `config` has its settings.
void analyse(const Config& config, Session& session);

}  // namespace bochner::lra
