#include "experiments/learners/adaptation/methods.h"

#include <algorithm>

namespace bochner {
namespace {

Peft lora(const AdaptationConfig& config) {
  Peft peft{.type = Peft::Type::lora, .low_rank = {config.rank, config.alpha}, .targets = config.target_names()};
  if (peft.targets.empty()) fail("--model.targets: names no matrices");
  return peft;
}

Peft bottleneck(const AdaptationConfig& config, bool both_halves) {
  return {.type = Peft::Type::bottleneck,
          .bottleneck = {.size = config.size, .activation = activation_named(config.size_activation)},
          .both_halves = both_halves};
}

Peft snnk(const AdaptationConfig& config, Peft::Type type) {
  Peft peft{.type = type, .snnk = config.snnk(config.activation)};
  if (type != Peft::Type::snnk_adapter) peft.modules_to_save = {};  // they have the classifier
  return peft;
}

void uptrain(PretrainedModel& model, const AdaptationConfig& config, Generator& init) {
  const auto count = static_cast<int64_t>(model.blocks().size());
  if (config.top > count) fail("--model.top={}: the model has {} blocks", config.top, count);
  for (int64_t i = count - config.top; i < count; ++i) {
    model.blocks()[static_cast<size_t>(i)].replace_feed_forward(config.snnk(config.activation), init);
  }
}

/// Whether the module of a parameter has a low-rank update of which this parameter is not a part.
bool has_update(const std::string& name, const std::vector<Parameter*>& parameters) {
  const std::string update = name.substr(0, name.rfind('.') + 1) + "lora_A.weight";
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const Parameter* parameter) { return parameter->name == update; });
}

const std::vector<std::string> kBottleneck = {"size", "size-activation", "train-pooler"};

}  // namespace

const std::vector<Method>& methods() {
  static const std::vector<Method> all = {
      {.name = "full"},
      {.name = "linear-probe", .trained = {"classifier.*"}, .reads = {"train-pooler"}},
      {.name = "pooler", .trained = {"pooler.*", "classifier.*"}, .reads = {"new-pooler"}},
      {.name = "bitfit", .trained = {"*.bias", "classifier.*"}, .reads = {"train-pooler"}},
      {.name = "lora",
       .adds = lora,
       .trained = {"*.lora_*", "classifier.*"},
       .reads = {"targets", "rank", "alpha", "train-pooler"}},
      {.name = "adapter",
       .adds = [](const AdaptationConfig& config) { return bottleneck(config, false); },
       .trained = {"*_adapter.*", "classifier.*"},
       .reads = kBottleneck},
      {.name = "houlsby",
       .adds = [](const AdaptationConfig& config) { return bottleneck(config, true); },
       .trained = {"*_adapter.*", "classifier.*"},
       .reads = kBottleneck},
      {.name = "snnk-adapter",
       .adds = [](const AdaptationConfig& config) { return snnk(config, Peft::Type::snnk_adapter); },
       .trained = {"*_adapter.*", "classifier.*"},
       .reads = {"activation", "features", "orthogonal", "damped", "scale-inputs", "train-pooler"}},
      {.name = "snnk-pooler",
       .adds = [](const AdaptationConfig& config) { return snnk(config, Peft::Type::snnk_pooler); },
       .trained = {"snnk_pooler.*"},
       .reads = {"activation", "features", "orthogonal", "damped", "new-pooler"}},
      {.name = "bundle",
       .adds = [](const AdaptationConfig& config) { return snnk(config, Peft::Type::snnk_bundle); },
       .trained = {"bundle.*"},
       .reads = {"activation", "features", "orthogonal", "damped", "ridge", "new-pooler"}},
      {.name = "uptrain",
       .change = uptrain,
       .reads = {"activation", "features", "orthogonal", "damped", "scale-inputs", "top"}},
  };
  return all;
}

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const Method& method : methods()) names.push_back(method.name);
  return names;
}

const Method& method_of(const AdaptationConfig& config) {
  const auto found =
      std::find_if(methods().begin(), methods().end(), [&](const Method& one) { return one.name == config.method; });
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

std::vector<GroupRule> rules_of(const Method& method, const AdaptationConfig& config, PretrainedModel& model) {
  std::vector<std::string> trained = method.trained;
  if (config.train_pooler && !trained.empty()) trained.emplace_back("pooler.*");
  // A parameter follows the first rule that matches it, and each rule must decide something.
  std::vector<GroupRule> rules;
  const std::vector<Parameter*> parameters = model.parameters();
  for (const Parameter* parameter : parameters) {
    const std::string& name = parameter->name;
    const bool is_named = std::any_of(trained.begin(), trained.end(), [&](const auto& one) { return fits(name, one); });
    const bool is_trained = trained.empty() || (is_named && !has_update(name, parameters));
    if (!is_trained) {
      rules.push_back({.pattern = name, .frozen = true});
    } else if (fits(name, "*.bias") || fits(name, "*norm*.weight")) {
      rules.push_back({.pattern = name, .weight_decay = 0});
    }
  }
  return rules;
}

}  // namespace bochner
