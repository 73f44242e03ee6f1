// The options of `lra`: the data, the model and the training of a sequence classifier.
#pragma once

#include <string>

#include "datasets/listops/listops.h"
#include "experiments/learners/sequence/config.h"

namespace bochner::lra {

struct ListopsConfig {
  std::string tokenisation = "fixed";
  int64_t max_length = 2000;
  // Of the ListOps generator; the defaults are the Long Range Arena's.
  int64_t min_tokens = 500;
  int64_t max_tokens = 2000;
  int64_t train_examples = 96000;
  int64_t valid_examples = 2000;
  int64_t test_examples = 2000;
  uint64_t data_seed = 0;
  bool found = false;

  void fields(Fields& f);
  /// With `found`, states how many examples the files hold; an Error where a setting asks for something else.
  void state_found(const TaskData& data);
};

struct Config {
  RunOptions run;
  ListopsConfig listops;
  sequence::ModelConfig model;
  OptimConfig optim;

  Config();
  void fields(Fields& f);

  bochner::listops::TaskOptions listops_options() const;
};

}  // namespace bochner::lra
