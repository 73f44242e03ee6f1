// The options of classifiers of sequences (lra, sparsity): an encoder with any attention of the registry, and its
// training.
#pragma once

#include <string>
#include <vector>

#include "autograd/optim/schedule.h"
#include "datasets/task.h"
#include "experiments/attention/mechanism_config.h"
#include "experiments/common/program/options.h"
#include "layers/models/encoder.h"

namespace bochner::sequence {

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
  bool redraw_in_evaluation = false;
  std::string as = "paper";
  /// What else mechanisms may be told: --model.mechanism.block and so on.
  struct Further : MechanismConfig {
    void fields(Fields& f) { further(f); }
  } mechanism;

  void fields(Fields& f);
};

struct OptimConfig {
  std::string schedule = "constant";
  double rate = 1e-4;
  int64_t warmup = 0;
  double beta1 = 0.9;
  bool cycle_beta1 = false;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double clip_norm = 0;
  double clip_value = 0;
  int64_t evaluate_every = 500;

  void fields(Fields& f);
  /// An Error where settings do not go together.
  Schedule schedule_of(int64_t steps) const;
};

/// All names of the registry.
inline std::vector<std::string> mechanism_names() { return attention_names(); }

/// The classifier of sequences of `data` with this attention.
EncoderOptions encoder_options(const ModelConfig& model, const std::string& attention, const Task& data);

}  // namespace bochner::sequence
