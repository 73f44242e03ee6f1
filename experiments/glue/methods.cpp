#include "experiments/glue/methods.h"

#include <algorithm>
#include <sstream>

namespace bochner::glue {
namespace {

SnnkOptions snnk_options(const ModelConfig& model) {
  return {.activation = model.activation,
          .features = model.features,
          .orthogonal = model.orthogonal,
          .scale_inputs = model.scale_inputs,
          .damped = model.damped};
}

Peft lora(const ModelConfig& model) {
  Peft peft{.type = Peft::Type::lora, .low_rank = {model.rank, model.alpha}, .targets = {}};
  std::stringstream names(model.targets);
  for (std::string name; std::getline(names, name, ',');) peft.targets.push_back(name);
  if (peft.targets.empty()) fail("--model.targets: names no matrices");
  return peft;
}

Peft bottleneck(const ModelConfig& model, bool both_halves) {
  return {.type = Peft::Type::bottleneck,
          .bottleneck = {.size = model.size, .activation = activation_named(model.size_activation)},
          .both_halves = both_halves};
}

Peft snnk(const ModelConfig& model, Peft::Type type) {
  Peft peft{.type = type, .snnk = snnk_options(model)};
  if (type != Peft::Type::snnk_adapter) peft.modules_to_save = {};  // they have the classifier
  return peft;
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
      {.name = "lora", .adds = lora, .trained = {"*.lora_*", "classifier.*"}},
      {.name = "adapter",
       .adds = [](const ModelConfig& model) { return bottleneck(model, false); },
       .trained = {"*_adapter.*", "classifier.*"}},
      {.name = "houlsby",
       .adds = [](const ModelConfig& model) { return bottleneck(model, true); },
       .trained = {"*_adapter.*", "classifier.*"}},
      {.name = "snnk-adapter",
       .adds = [](const ModelConfig& model) { return snnk(model, Peft::Type::snnk_adapter); },
       .trained = {"*_adapter.*", "classifier.*"}},
      {.name = "snnk-pooler",
       .adds = [](const ModelConfig& model) { return snnk(model, Peft::Type::snnk_pooler); },
       .trained = {"snnk_pooler.*"}},
      {.name = "bundle",
       .adds = [](const ModelConfig& model) { return snnk(model, Peft::Type::snnk_bundle); },
       .trained = {"bundle.*"}},
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

std::string_view method_of(const Peft& peft) {
  switch (peft.type) {
    case Peft::Type::lora:
      return "lora";
    case Peft::Type::bottleneck:
      return peft.both_halves ? "houlsby" : "adapter";
    case Peft::Type::snnk_adapter:
      return "snnk-adapter";
    case Peft::Type::snnk_pooler:
      return "snnk-pooler";
    case Peft::Type::snnk_bundle:
      return "bundle";
  }
  internal_failure("a method for every adapter", __FILE__, __LINE__);
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
