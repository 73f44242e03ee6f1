// The options of `pretrain`: the texts, the model and its training.
#pragma once

#include <string>
#include <vector>

#include "datasets/corpora/token_cache.h"
#include "experiments/common/config/options.h"
#include "experiments/learners/mechanism_config.h"
#include "experiments/learners/optim_config.h"
#include "experiments/learners/pretrained.h"
#include "layers/models/bert.h"

namespace bochner::pretrain {

struct ModelConfig {
  int64_t layers = 2;
  int64_t dim = 128;
  int64_t heads = 4;
  int64_t head_dim = 0;
  int64_t hidden = 512;
  double dropout = 0.1;
  double deviation = 0.02;
  BertOptions::Positions positions = BertOptions::Positions::learned;
  std::string attention_blocks{};
  MechanismConfig mechanism;

  void fields(Fields& f);
  /// Takes the sizes of a pretrained model, so that they appear in the records of a run.
  void take_sizes_of(const BertOptions& options);
};

struct Config : ExportConfig {
  RunOptions run;
  std::vector<std::string> text{};
  std::vector<std::string> valid_text{};
  std::vector<std::string> test_text{};
  std::string vocab{};
  std::string pretrained{};
  int64_t vocabulary_size = 8192;
  bool lower_case = true;
  std::string cache{};
  int64_t max_length = 128;
  bool next_sentence = false;
  double share = 0.15;
  double epochs = 5;
  ModelConfig model;
  OptimConfig optim;

  Config();
  void fields(Fields& f);

  text::TokenCacheOptions texts() const;
  /// The folder of the model's tokenizer: --pretrained, or --vocab if that is a folder; empty: none.
  std::string tokenizer_folder() const;
  /// Sets steps and the steps between validations from the number of epochs, if they were not given.
  void settle(const Fields& fields, int64_t examples);
  /// The model for a vocabulary of this many ids.
  BertOptions bert_options(int64_t vocabulary, int64_t padding) const;
};

}  // namespace bochner::pretrain
