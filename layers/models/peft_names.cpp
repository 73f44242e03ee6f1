#include "layers/models/peft_names.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "engine/error.h"
#include "engine/io/bytes.h"

namespace bochner::peft {
namespace {

/// Parts of the names of a ViT's modules: in model files, and in transformers since version 5, whose names PEFT uses.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kRenamed = {
    {{"encoder.layer.", "layers."},
     {"attention.attention.query", "attention.q_proj"},
     {"attention.attention.key", "attention.k_proj"},
     {"attention.attention.value", "attention.v_proj"},
     {"attention.output.dense", "attention.o_proj"},
     {"intermediate.dense", "mlp.fc1"},
     {"output.dense", "mlp.fc2"}}};

/// The prefix of the trunk's names if the model has heads.
std::string trunk_of(const PretrainedModel& model) { return std::string(model.type()) + "."; }

}  // namespace

bool ends_as(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  return name.size() == end.size() || name[name.size() - end.size() - 1] == '.';
}

bool is_any(std::string_view name, const std::vector<std::string>& ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) { return ends_as(name, end); });
}

bool is_within(std::string_view name, const std::vector<std::string>& modules) {
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    if (is_any(name.substr(0, dot), modules)) return true;
  }
  return false;
}

std::string name_in_peft(const PretrainedModel& model, std::string name) {
  if (model.type() != "vit") return name;
  for (const auto& [before, now] : kRenamed) {
    if (const size_t at = name.find(before); at != std::string::npos) name.replace(at, before.size(), now);
  }
  return name;
}

std::string plain_name(const PretrainedModel& model, std::string_view name) {
  const std::string trunk = trunk_of(model);
  for (const std::string_view prefix : {kModel, std::string_view(trunk)}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  return name_in_peft(model, std::string(name));
}

std::vector<Target> targets_of(PretrainedModel& model) {
  const std::string trunk = model.has_heads() ? trunk_of(model) : "";
  const std::string projections = model.type() == "vit" ? "attention.attention." : "attention.self.";
  std::vector<Target> targets;
  const auto add = [&](const std::string& name, Linear* linear, const char* part, int64_t begin, int64_t end) {
    targets.push_back({name, name_in_peft(model, name), linear, part, begin, end});
  };
  const auto whole = [&](const std::string& name, Linear* linear) {
    if (linear != nullptr) add(name, linear, "", 0, linear->outputs());
  };
  for (size_t i = 0; i < model.blocks().size(); ++i) {
    TransformerBlock& block = model.blocks()[i];
    const std::string layer = trunk + "encoder.layer." + std::to_string(i) + ".";
    Linear& qkv = block.attention().qkv();
    const int64_t rows = qkv.outputs() / 3;
    for (const char* part : {"query", "key", "value"}) {
      const int64_t begin = std::string_view(part) == "query" ? 0 : std::string_view(part) == "key" ? rows : 2 * rows;
      add(layer + projections + part, &qkv, part, begin, begin + rows);
    }
    whole(layer + "attention.output.dense", &block.attention().out());
    if (FeedForward* network = block.feed_forward()) {
      whole(layer + "intermediate.dense", &network->in());
      whole(layer + "output.dense", &network->out());
    }
  }
  whole(trunk + "pooler.dense", model.pooler());
  whole("classifier", model.classifier());
  return targets;
}

bool is_target(PretrainedModel& model, const std::string& module) {
  const std::vector<Target> targets = targets_of(model);
  return std::any_of(targets.begin(), targets.end(),
                     [&](const Target& target) { return plain_name(model, target.name) == module; });
}

bool may_be_target(std::string_view end) {
  constexpr std::array<std::string_view, 11> kLastParts = {
      "query", "key", "value", "dense", "classifier", "q_proj", "k_proj", "v_proj", "o_proj", "fc1", "fc2"};
  return std::ranges::find(kLastParts, end.substr(end.rfind('.') + 1)) != kLastParts.end();
}

void refuse_target(const std::string& where, const std::string& end) {
  fail(
      "{}: no matrix of the model is called {}; there are query, key, value, attention.output.dense, "
      "intermediate.dense, output.dense, pooler.dense and classifier, in a ViT also as q_proj, k_proj, v_proj, "
      "o_proj, fc1 and fc2",
      where, shown(end));
}

bool is_targeted(const Target& target, const std::vector<std::string>& ends) {
  return is_any(target.name, ends) || is_any(target.in_peft, ends);
}

std::vector<std::string> targets_in_files(std::vector<std::string> ends, const std::vector<std::string>& tensors) {
  std::map<std::string, std::string> renamed = {{"q_proj", "query"}, {"k_proj", "key"}, {"v_proj", "value"}};
  const bool is_older = std::any_of(tensors.begin(), tensors.end(), [](const std::string& name) {
    return name.find("encoder.layer.") != std::string::npos;
  });
  // Since version 5 of transformers, only the pooler of a ViT has this name.
  if (!is_older) renamed["dense"] = "pooler.dense";
  for (std::string& end : ends) {
    if (const auto found = renamed.find(end); found != renamed.end()) end = found->second;
  }
  return ends;
}

std::vector<std::string> targets_in_peft(PretrainedModel& model, const std::vector<std::string>& ends) {
  if (model.type() != "vit") return ends;
  std::set<std::string> parts, names;
  for (const Target& target : targets_of(model)) {
    if (!is_targeted(target, ends)) continue;
    names.insert(target.in_peft);
    parts.insert(target.in_peft.substr(target.in_peft.rfind('.') + 1));
  }
  std::vector<std::string> found(parts.begin(), parts.end());
  for (const Target& target : targets_of(model)) {
    if (is_any(target.in_peft, found) && !names.contains(target.in_peft)) return {names.begin(), names.end()};
  }
  return found;
}

}  // namespace bochner::peft
