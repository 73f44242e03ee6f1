#include "experiments/learners/sequence/config.h"

namespace bochner::sequence {
namespace {

using Encoder = EncoderOptions;
using Init = LinearOptions::Init;

/// The options of mechanisms that are called --model.NAME; the others are --model.mechanism.NAME.
const std::vector<std::string> kOfModel = {"features", "components", "redraw", "redraw-in-evaluation", "as"};

}  // namespace

void ModelConfig::fields(Fields& f) {
  f("layers", layers, "encoder blocks").at_least(0).at_most(1000);
  f("dim", dim, "size of the residual stream").at_least(1);
  f("heads", heads, "attention heads").at_least(1);
  f("head-dim", head_dim, "size of a head; 0: dim / heads").at_least(0);
  f("hidden", hidden, "hidden units of the feed-forward blocks").at_least(1);
  f("classifier", classifier, "hidden units of the classifier; 0: none").at_least(0);
  f("block", block, {{"pre-norm", Encoder::Block::pre_norm}, {"kl-released", Encoder::Block::kl_released}},
    "kl-released takes the residual from the normalised input");
  f("positions", positions,
    {{"learned", Encoder::Positions::learned},
     {"sinusoidal", Encoder::Positions::sinusoidal},
     {"rotary", Encoder::Positions::rotary},
     {"rotary-2d", Encoder::Positions::rotary_2d}},
    "position encoding; rotary turns queries and keys, rotary-2d by the row and the column of a pixel");
  f("pooling", pooling,
    {{"mean", Encoder::Pooling::mean},
     {"mean-padded", Encoder::Pooling::mean_padded},
     {"cls", Encoder::Pooling::cls},
     {"first", Encoder::Pooling::first}},
    "mean-padded divides by the padded length, as SKY's code does");
  f("pair", pair, {{"arena", Encoder::Pair::arena}, {"skyformer", Encoder::Pair::skyformer}},
    "head on two sequences u, v: arena reads [u, v] with two hidden layers, skyformer [u, v, u v, u - v] with one");
  f("activation", activation, {{"gelu", Activation::gelu}, {"gelu-tanh", Activation::gelu_tanh}},
    "of the feed-forward blocks; gelu-tanh is the approximation that the code of LRA has");
  f("norm-eps", norm_eps, "added to the variance in LayerNorm").above(0);
  f("init", init, {{"fan-in", Init::fan_in}, {"xavier", Init::xavier}, {"normal", Init::normal}}, "initial weights");
  f("projection-bias", projection_bias, "give the projections of attention a bias");
  f("mask-token", mask_token, "have one more token, which hides others where the model learns to name them");
  f("embedding-deviation", embedding_deviation, "standard deviation of initial embeddings").at_least(0);
  f("dropout", dropout, "dropout everywhere except in attention weights").at_least(0).below(1);
  f("causal", causal, "attention sees no token behind the one that it is for");
  f("recompute", recompute, "run blocks again in backward: less memory, more time");
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
  options.length = data.max_length;
  options.width = data.image_width;
  options.classes = data.classes;
  options.layers = model.layers;
  options.dim = model.dim;
  options.hidden = model.hidden;
  options.classifier = model.classifier;
  options.linear = {.init = model.init};
  options.block = model.block;
  options.positions = model.positions;
  options.pooling = model.pooling;
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
  options.attention.projection = {.bias = model.projection_bias, .init = model.init};
  return options;
}

}  // namespace bochner::sequence
