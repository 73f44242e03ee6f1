#include "experiments/glue/methods.h"

#include <algorithm>

namespace bochner::glue {
namespace {

SnnkOptions snnk_options(const ModelConfig& model) {
  return {.activation = model.activation,
          .features = model.features,
          .orthogonal = model.orthogonal,
          .scale_inputs = model.scale_inputs,
          .damped = model.damped};
}

TransformerBlock::MakeAdapter bottleneck(const Bert& bert, const ModelConfig& model, Generator& init) {
  const BottleneckOptions options{.size = model.size, .activation = activation_named(model.size_activation)};
  return [&bert, options, &init](Slot slot) {
    return std::make_unique<BottleneckAdapter>(std::move(slot), bert.options().dim, options, init);
  };
}

TransformerBlock::MakeAdapter snnk(const Bert& bert, const ModelConfig& model, Generator& init) {
  return [&bert, options = AdapterOptions{.snnk = snnk_options(model)}, &init](Slot slot) {
    return std::make_unique<SnnkAdapter>(std::move(slot), bert.options().dim, options, init);
  };
}

void adapt_both(Bert& bert, const TransformerBlock::MakeAdapter& make) {
  for (TransformerBlock& block : bert.blocks()) {
    block.adapt_attention(make);
    block.adapt_feed_forward(make);
  }
}

void uptrain(Bert& bert, const ModelConfig& model, Generator& init) {
  const auto count = static_cast<int64_t>(bert.blocks().size());
  if (model.top > count) fail("--model.top={}: the model has {} blocks", model.top, count);
  for (int64_t i = count - model.top; i < count; ++i) {
    bert.blocks()[static_cast<size_t>(i)].replace_feed_forward(snnk_options(model), init);
  }
}

const std::vector<Method>& methods() {
  static const std::vector<Method> all = {
      {.name = "full"},
      {.name = "linear-probe", .trained = {"classifier.*"}},
      {.name = "pooler", .trained = {"pooler.*", "classifier.*"}},
      {.name = "bitfit", .trained = {"*.bias", "classifier.*"}},
      {.name = "lora",
       .change =
           [](Bert& bert, const ModelConfig& model, Generator& init) {
             for (TransformerBlock& block : bert.blocks()) {
               block.attention().add_low_rank({model.rank, model.alpha}, init);
             }
           },
       .trained = {"*_update.*", "classifier.*"}},
      {.name = "adapter",
       .change =
           [](Bert& bert, const ModelConfig& model, Generator& init) {
             const auto make = bottleneck(bert, model, init);
             for (TransformerBlock& block : bert.blocks()) block.adapt_feed_forward(make);
           },
       .trained = {"*_adapter.*", "classifier.*"}},
      {.name = "houlsby",
       .change = [](Bert& bert, const ModelConfig& model,
                    Generator& init) { adapt_both(bert, bottleneck(bert, model, init)); },
       .trained = {"*_adapter.*", "classifier.*"}},
      {.name = "snnk-adapter",
       .change = [](Bert& bert, const ModelConfig& model,
                    Generator& init) { adapt_both(bert, snnk(bert, model, init)); },
       .trained = {"*_adapter.*", "classifier.*"}},
      {.name = "snnk-pooler",
       .change = [](Bert& bert, const ModelConfig& model,
                    Generator& init) { bert.replace_pooler(snnk_options(model), init); },
       .trained = {"snnk_pooler.*"}},
      {.name = "uptrain", .change = uptrain},
  };
  return all;
}

}  // namespace

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const Method& method : methods()) names.push_back(method.name);
  return names;
}

const Method& method_of(const ModelConfig& model) {
  const auto found =
      std::find_if(methods().begin(), methods().end(), [&](const Method& one) { return one.name == model.method; });
  BOCHNER_ASSERT(found != methods().end());
  return *found;
}

std::vector<GroupRule> rules_of(const Method& method, const ModelConfig& model, Bert& bert) {
  std::vector<std::string> trained = method.trained;
  if (model.train_pooler && !trained.empty()) trained.emplace_back("pooler.*");
  // A parameter follows the first rule that it fits, and each rule must decide something.
  std::vector<GroupRule> rules;
  const std::vector<Parameter*> parameters = bert.parameters();
  for (const Parameter* parameter : parameters) {
    const std::string& name = parameter->name;
    const bool is_trained = trained.empty() || std::any_of(trained.begin(), trained.end(),
                                                           [&](const auto& pattern) { return fits(name, pattern); });
    if (!is_trained) {
      rules.push_back({.pattern = name, .frozen = true});
    } else if (fits(name, "*.bias") || fits(name, "*norm*.weight")) {
      rules.push_back({.pattern = name, .weight_decay = 0});
    }
  }
  return rules;
}

}  // namespace bochner::glue
