// The options of sequence classifiers (lra, sparsity): an encoder with any attention in the registry, and its training.
#pragma once

#include <string>
#include <vector>

#include "datasets/task.h"
#include "experiments/common/config/options.h"
#include "experiments/learners/mechanism_config.h"
#include "experiments/learners/optim_config.h"
#include "layers/models/encoder.h"

namespace bochner::sequence {

struct ModelConfig {
  int64_t layers = 2;
  int64_t dim = 64;
  int64_t heads = 2;
  int64_t head_dim = 0;
  int64_t hidden = 128;
  int64_t classifier = 128;
  int64_t length = 0;
  EncoderOptions::Block block = EncoderOptions::Block::pre_norm;
  EncoderOptions::Positions positions = EncoderOptions::Positions::learned;
  enum class Pixels : unsigned char { tokens, intensity };
  Pixels pixels = Pixels::tokens;
  int64_t convolution = 0;
  EncoderOptions::Pooling pooling = EncoderOptions::Pooling::mean;
  bool pooled_batch_norm = false;
  EncoderOptions::Pair pair = EncoderOptions::Pair::arena;
  Activation activation = Activation::gelu;
  double norm_eps = 1e-5;
  LinearOptions::Init init = LinearOptions::Init::fan_in;
  bool projection_bias = true;
  bool mask_token = false;
  double embedding_deviation = 0.02;
  double dropout = 0.1;
  bool causal = false;
  bool recompute = false;
  MechanismConfig mechanism;  ///< --model.features and a few others, --model.mechanism.block and so on

  void fields(Fields& f);
};

/// The classifier of sequences like those of `data`, with this attention.
EncoderOptions encoder_options(const ModelConfig& model, const std::string& attention, const Task& data);
/// The minimum length of this model's batches: its own length if a mean divides by the padded length, else 0.
int64_t least_length(const EncoderOptions& options);

}  // namespace bochner::sequence
