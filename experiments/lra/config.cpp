#include "experiments/lra/config.h"

#include <filesystem>

namespace bochner::lra {
namespace {

std::vector<std::string> mechanism_names() {
  std::vector<std::string> names;
  for (const MechanismInfo& info : mechanisms()) names.push_back(info.name);
  return names;
}

/// The place of `name` in `names`; fields have checked that it has one.
template <class Enum>
Enum chosen(const std::string& name, std::initializer_list<std::pair<const char*, Enum>> choices) {
  for (const auto& [known, value] : choices) {
    if (name == known) return value;
  }
  internal_failure("a checked choice", __FILE__, __LINE__);
}

}  // namespace

void ListopsConfig::fields(Fields& f) {
  f("tokenisation", tokenisation, "fixed keeps closing brackets; released, SKY's, loses them")
      .one_of({"fixed", "released"});
  f("max-length", max_length, "longest sequence; longer ones are cut").at_least(1);
  f("min-tokens", min_tokens, "generated expressions are longer than this").at_least(0);
  f("max-tokens", max_tokens, "generated expressions are shorter than this").at_least(2);
  f("train-examples", train_examples, "expressions to generate for training").at_least(1);
  f("valid-examples", valid_examples, "for choosing the best checkpoint").at_least(1);
  f("test-examples", test_examples, "for the result").at_least(1);
  f("data-seed", data_seed, "seed of the generator of expressions");
}

void ModelConfig::fields(Fields& f) {
  f("layers", layers, "encoder blocks").at_least(0);
  f("dim", dim, "size of the residual stream").at_least(1);
  f("heads", heads, "attention heads").at_least(1);
  f("head-dim", head_dim, "size of a head; 0: dim / heads").at_least(0);
  f("hidden", hidden, "hidden units of the feed-forward blocks").at_least(1);
  f("classifier", classifier, "hidden units of the classifier; 0: none").at_least(0);
  f("block", block, "kl-released takes the residual from the normalised input").one_of({"pre-norm", "kl-released"});
  f("positions", positions, "position encoding").one_of({"learned", "sinusoidal"});
  f("pooling", pooling, "mean-padded divides by the padded length, as SKY's code")
      .one_of({"mean", "mean-padded", "cls"});
  f("init", init, "initial weights").one_of({"fan-in", "xavier", "normal"});
  f("projection-bias", projection_bias, "do the projections of attention have a bias");
  f("embedding-deviation", embedding_deviation, "standard deviation of initial embeddings").at_least(0);
  f("dropout", dropout, "dropout everywhere but in attention weights").at_least(0).below(1);
  f("recompute", recompute, "run blocks again in backward: less memory, more time");
  f("features", features, "random features (rows of Omega) of kernel attentions").at_least(1);
  f("components", components, "Gaussians of the mixture of gmm-*").at_least(1);
  f("redraw", redraw, "training steps between draws of random features; 0: never").at_least(0);
  f("as", as, "where paper and released code of an attention differ").one_of({"paper", "released"});
}

void OptimConfig::fields(Fields& f) {
  f("schedule", schedule, "learning-rate schedule").one_of({"constant", "linear", "rsqrt", "cosine", "one-cycle"});
  f("rate", rate, "peak learning rate; of rsqrt: the base").above(0);
  f("warmup", warmup, "steps of linear warm-up").at_least(0);
  f("beta1", beta1, "AdamW's first decay").at_least(0).below(1);
  f("beta2", beta2, "AdamW's second decay").at_least(0).below(1);
  f("eps", eps, "AdamW's epsilon").above(0);
  f("weight-decay", weight_decay, "decoupled weight decay").at_least(0);
  f("clip-norm", clip_norm, "largest norm of the gradient; 0: no limit").at_least(0);
  f("clip-value", clip_value, "largest entry of the gradient; 0: no limit").at_least(0);
  f("evaluate-every", evaluate_every, "steps between validations").at_least(1).free_on_resume();
}

Config::Config() {
  run.task = "listops";
  run.tasks = {"listops"};
  run.attentions = mechanism_names();
  run.attention = "performer";
  run.steps = 5000;
  run.batch = 32;
}

void Config::fields(Fields& f) {
  run.fields(f);
  f.group("listops", listops);
  f.group("model", model);
  f.group("optim", optim);
}

EncoderOptions Config::encoder_options(const Task& data) const {
  using Encoder = EncoderOptions;
  using Init = LinearOptions::Init;
  const auto initial =
      chosen<Init>(model.init, {{"fan-in", Init::fan_in}, {"xavier", Init::xavier}, {"normal", Init::normal}});
  Encoder options;
  options.vocabulary = data.vocabulary;
  options.length = data.max_length;
  options.classes = data.classes;
  options.layers = model.layers;
  options.dim = model.dim;
  options.hidden = model.hidden;
  options.classifier = model.classifier;
  options.linear = {.init = initial};
  options.block = chosen<Encoder::Block>(
      model.block, {{"pre-norm", Encoder::Block::pre_norm}, {"kl-released", Encoder::Block::kl_released}});
  options.positions = chosen<Encoder::Positions>(
      model.positions, {{"learned", Encoder::Positions::learned}, {"sinusoidal", Encoder::Positions::sinusoidal}});
  options.pooling = chosen<Encoder::Pooling>(model.pooling, {{"mean", Encoder::Pooling::mean},
                                                             {"mean-padded", Encoder::Pooling::mean_padded},
                                                             {"cls", Encoder::Pooling::cls}});
  options.embedding_deviation = model.embedding_deviation;
  options.dropout = model.dropout;
  options.recompute = model.recompute;
  options.attention.attention = run.attention;
  options.attention.heads = model.heads;
  options.attention.head_dim = model.head_dim;
  options.attention.projection = {.bias = model.projection_bias, .init = initial};
  options.attention.mechanism.features = model.features;
  options.attention.mechanism.components = model.components;
  options.attention.mechanism.redraw = model.redraw;
  options.attention.mechanism.as = chosen<AttentionOptions::As>(
      model.as, {{"paper", AttentionOptions::As::paper}, {"released", AttentionOptions::As::released}});
  return options;
}

Schedule Config::schedule() const { return {Schedule::named(optim.schedule), optim.rate, optim.warmup, run.steps}; }

bochner::listops::TaskOptions Config::listops_options() const {
  bochner::listops::TaskOptions options;
  options.generator.min_length = listops.min_tokens;
  options.generator.max_length = listops.max_tokens;
  options.generator.train = listops.train_examples;
  options.generator.valid = listops.valid_examples;
  options.generator.test = listops.test_examples;
  options.generator.seed = listops.data_seed;
  const bool official = options.generator == bochner::listops::GeneratorOptions{};
  const std::string folder =
      official ? "listops" : fmt::format("listops-{}-{}", listops.min_tokens, listops.max_tokens);
  options.folder = std::filesystem::path(run.data) / folder;
  options.read.tokenisation = bochner::listops::tokenisation_named(listops.tokenisation);
  options.read.max_length = listops.max_length;
  return options;
}

}  // namespace bochner::lra
