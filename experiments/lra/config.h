// What `lra` can be told: the data, the model and the training of a sequence classifier.
#pragma once

#include <string>

#include "autograd/optim/schedule.h"
#include "datasets/listops.h"
#include "experiments/common/options.h"
#include "layers/models/encoder.h"

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

  void fields(Fields& f);
};

struct ModelConfig {
  int64_t layers = 2;
  int64_t dim = 64;
  int64_t heads = 2;
  int64_t head_dim = 0;
  int64_t hidden = 128;
  int64_t classifier = 128;
  std::string block = "pre-norm";
  std::string positions = "learned";
  std::string pooling = "mean";
  std::string init = "fan-in";
  bool projection_bias = true;
  double embedding_deviation = 0.02;
  double dropout = 0.1;
  bool recompute = false;
  // Of the attention mechanism.
  int64_t features = 128;
  int64_t components = 2;
  int64_t redraw = 100;
  std::string as = "paper";

  void fields(Fields& f);
};

struct OptimConfig {
  std::string schedule = "constant";
  double rate = 1e-4;
  int64_t warmup = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double clip_norm = 0;
  double clip_value = 0;
  int64_t evaluate_every = 500;

  void fields(Fields& f);
};

struct Config {
  RunOptions run;
  ListopsConfig listops;
  ModelConfig model;
  OptimConfig optim;

  Config();
  void fields(Fields& f);

  bochner::listops::TaskOptions listops_options() const;
  EncoderOptions encoder_options(const Task& data) const;
  Schedule schedule() const;
};

}  // namespace bochner::lra
