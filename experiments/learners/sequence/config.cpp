#include "experiments/learners/sequence/config.h"

#include <algorithm>

namespace bochner::sequence {
namespace {

using Encoder = EncoderOptions;
using Init = LinearOptions::Init;

/// The options of mechanisms that are named --model.NAME; the others are --model.mechanism.NAME.
const std::vector<std::string> kOfModel = {"features", "components", "redraw", "redraw-in-evaluation", "as"};

/// Embeddings of grey levels, in which token i is W_0 + (2 i / (levels - 1) - 1) W_1. The mask token, which comes after
/// them, has a vector of its own.
Tensor intensities(int64_t levels, bool mask_token) {
  const int64_t count = levels + (mask_token ? 1 : 0);
  const int64_t entries = mask_token ? 3 : 2;
  const Tensor codes = Tensor::zeros({count, entries}, DType::f32);
  auto* const to = codes.data<float>();
  for (int64_t i = 0; i < levels; ++i) {
    to[i * entries] = 1;
    to[i * entries + 1] = 2 * static_cast<float>(i) / static_cast<float>(std::max<int64_t>(1, levels - 1)) - 1;
  }
  if (mask_token) to[levels * entries + 2] = 1;
  return codes;
}

}  // namespace

void ModelConfig::fields(Fields& f) {
  f("layers", layers, "encoder blocks").at_least(0).at_most(1000);
  f("dim", dim, "size of the residual stream").at_least(1);
  f("heads", heads, "attention heads").at_least(1);
  f("head-dim", head_dim, "size of a head; 0: dim / heads").at_least(0);
  f("hidden", hidden, "hidden units of the feed-forward blocks").at_least(1);
  f("classifier", classifier, "hidden units of the classifier; 0: none").at_least(0);
  f("length", length,
    "number of positions, at least the length of the task's longest sequence; 0: just that. SKY's code rounds it up to "
    "a power of two and pads every sequence to it (--model.pooling=mean-padded)")
      .at_least(0);
  f("block", block, {{"pre-norm", Encoder::Block::pre_norm}, {"kl-released", Encoder::Block::kl_released}},
    "kl-released takes the residual from the normalised input, as KL's code does");
  f("positions", positions,
    {{"learned", Encoder::Positions::learned},
     {"sinusoidal", Encoder::Positions::sinusoidal},
     {"rotary", Encoder::Positions::rotary},
     {"rotary-2d", Encoder::Positions::rotary_2d}},
    "position encoding; rotary rotates queries and keys by their position, rotary-2d by a pixel's row and column");
  f("pixels", pixels, {{"tokens", Pixels::tokens}, {"intensity", Pixels::intensity}},
    "how pixels become vectors: by an embedding of each grey level, as of words, or by a linear map of the level");
  f("convolution", convolution,
    "width, in tokens or in pixels each way, of a depthwise convolution of the values that is added to attention's "
    "output; an odd number; 0: none")
      .at_least(0);
  f("pooling", pooling,
    {{"mean", Encoder::Pooling::mean},
     {"mean-padded", Encoder::Pooling::mean_padded},
     {"max", Encoder::Pooling::max},
     {"cls", Encoder::Pooling::cls},
     {"first", Encoder::Pooling::first}},
    "how the states of a sequence become one vector; mean-padded divides by the padded length, as SKY's code does; max "
    "takes the largest element by element");
  f("pooled-batch-norm", pooled_batch_norm,
    "batch normalisation of the pooled vectors, for which batches must not be of similar lengths "
    "(--group-by-length=false)");
  f("pair", pair, {{"arena", Encoder::Pair::arena}, {"skyformer", Encoder::Pair::skyformer}},
    "head on two sequences u, v: arena reads [u, v] with two hidden layers, skyformer [u, v, u v, u - v] with one");
  f("activation", activation, {{"gelu", Activation::gelu}, {"gelu-tanh", Activation::gelu_tanh}},
    "activation of the feed-forward blocks; gelu-tanh is the approximation in LRA's code");
  f("norm-eps", norm_eps, "added to the variance in LayerNorm").above(0);
  f("init", init, {{"fan-in", Init::fan_in}, {"xavier", Init::xavier}, {"normal", Init::normal}}, "initial weights");
  f("projection-bias", projection_bias, "give the projections of attention a bias");
  f("mask-token", mask_token, "have one more token, which hides others where the model learns to name hidden tokens");
  f("embedding-deviation", embedding_deviation, "standard deviation of initial embeddings").at_least(0);
  f("dropout", dropout, "dropout everywhere except in attention weights").at_least(0).below(1);
  f("causal", causal, "each token attends only to itself and to earlier ones");
  f("recompute", recompute, "compute blocks again in the backward pass: less memory, more time");
  mechanism.fields(f, kOfModel);
  struct Others {
    MechanismConfig& mechanism;
    void fields(Fields& of_mechanism) {
      std::vector<std::string> elsewhere = kOfModel;
      elsewhere.emplace_back("length");  // that of the task's sequences
      mechanism.fields_but(of_mechanism, elsewhere);
    }
  } others{mechanism};
  f.group("mechanism", others);
}

EncoderOptions encoder_options(const ModelConfig& model, const std::string& attention, const Task& data) {
  Encoder options;
  options.vocabulary = data.vocabulary + (model.mask_token ? 1 : 0);
  if (model.length > 0 && model.length < data.max_length) {
    fail("--model.length={}: sequences of this task have up to {} tokens", model.length, data.max_length);
  }
  options.length = model.length > 0 ? model.length : data.max_length;
  options.width = data.image_width;
  if (model.pixels == ModelConfig::Pixels::intensity) {
    if (data.image_width == 0) fail("--model.pixels=intensity: these sequences are no images");
    options.codes = intensities(data.vocabulary, model.mask_token);
  }
  options.classes = data.classes;
  options.layers = model.layers;
  options.dim = model.dim;
  options.hidden = model.hidden;
  options.classifier = model.classifier;
  options.linear = {.init = model.init};
  options.block = model.block;
  options.positions = model.positions;
  options.pooling = model.pooling;
  options.pooled_batch_norm = model.pooled_batch_norm;
  options.pair = model.pair;
  options.activation = model.activation;
  options.norm_eps = model.norm_eps;
  options.embedding_deviation = model.embedding_deviation;
  options.dropout = model.dropout;
  options.causal = model.causal;
  options.recompute = model.recompute;
  options.attention.mechanism = model.mechanism.chosen(attention);
  options.attention.heads = model.heads;
  options.attention.head_dim = model.head_dim;
  options.attention.convolution = model.convolution;
  options.attention.projection = {.bias = model.projection_bias, .init = model.init};
  return options;
}

int64_t least_length(const EncoderOptions& options) {
  return options.pooling == EncoderOptions::Pooling::mean_padded ? options.length : 0;
}

}  // namespace bochner::sequence
