// The options of `uci`: the data, the model and the training.
#pragma once

#include "datasets/tables/tabular.h"
#include "experiments/learners/rows/config.h"
#include "experiments/learners/rows/sweep.h"

namespace bochner::uci_experiment {

struct CsvConfig {
  std::string header = "auto";
  std::string separator = ",";
  std::vector<std::string> missing = {"?", "NA"};
  std::vector<std::string> categories;
  std::vector<std::string> leave_out;
  double valid_share = 0.1;
  double test_share = 0.1;
  uint64_t split_seed = 0;
  bool cache = true;

  void fields(Fields& f);
};

struct Config {
  RunOptions run;
  std::string label;
  CsvConfig csv;
  rows::ModelConfig model;
  SnnkOptimConfig optim;
  rows::SweepConfig sweep;

  Config();
  void fields(Fields& f);
  /// Reads the task's files. An Error names the file that is missing and where it is to be had; `warn` is told what is
  /// hardly meant.
  TableSplits load(const Say& say, const Say& warn) const;

 private:
  void settle(const Fields& given);
  TableSplits load_table(const Say& say, const Say& warn) const;
};

}  // namespace bochner::uci_experiment
