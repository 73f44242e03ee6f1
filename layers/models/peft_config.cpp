#include "layers/models/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/io/bytes.h"
#include "engine/io/json_file.h"
#include "engine/io/paths.h"
#include "engine/io/safetensors.h"
#include "engine/nearest.h"
#include "layers/models/peft_names.h"

namespace bochner {
namespace {

using nlohmann::json;
using peft::ends_as;
using peft::is_any;
using peft::kConfig;
using peft::kTensors;
using peft::may_be_target;
using peft::refuse_target;
using peft::targets_in_files;
using peft::targets_in_peft;
using Type = Peft::Type;

constexpr int64_t kLargestAdapterConfig = int64_t{1} << 20;

/// A LoRA of a ViT whose classifier reads the pooler. transformers has no such model, and PEFT, which knows only LORA,
/// would leave the pooler out.
constexpr std::string_view kPooledLora = "LORA_POOLED";
constexpr std::array<std::pair<Type, std::string_view>, 6> kTypes = {{{Type::lora, "LORA"},
                                                                      {Type::bottleneck, "BOTTLENECK"},
                                                                      {Type::snnk_adapter, "SNNK_ADAPTER"},
                                                                      {Type::snnk_pooler, "SNNK_POOLER"},
                                                                      {Type::snnk_bundle, "SNNK_BUNDLE"},
                                                                      {Type::lora, kPooledLora}}};

std::string_view name_of(const Peft& peft, bool pooled) {
  if (peft.type == Type::lora && pooled) return kPooledLora;
  return std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& each) { return each.first == peft.type; })->second;
}

std::vector<std::string> texts(const JsonMembers& members, const std::string& path, const char* name) {
  std::vector<std::string> list;
  const json* found = members.find(name);
  if (found == nullptr) return list;
  if (!found->is_array()) fail("{}: {} is {}, but must be a list of names", path, name, brief(*found));
  for (const json& each : *found) {
    if (!each.is_string()) fail("{}: {} holds {}, which is no name", path, name, brief(each));
    list.push_back(each.get<std::string>());
  }
  return list;
}

/// Settings of LoRA that would change the result and are not supported here: they must be off.
void refuse_unknown(const JsonMembers& members, const std::string& path) {
  for (const char* name :
       {"use_dora", "use_bdlora", "use_qalora", "fan_in_fan_out", "lora_bias", "layers_to_transform", "rank_pattern",
        "alpha_pattern", "exclude_modules", "target_parameters", "trainable_token_indices", "layer_replication",
        "alora_invocation_tokens", "arrow_config", "monteclora_config", "kasa_config", "velora_config"}) {
    const json* found = members.find(name);
    const bool off =
        found == nullptr || (found->is_boolean() && !found->get<bool>()) || (found->is_structured() && found->empty());
    if (!off) fail("{}: {} is {}, which is not known here", path, name, brief(*found));
  }
  if (members.text("bias", "none") != "none")
    fail("{}: bias is {}; known here is none", path, shown(members.text("bias", "")));
  const json* init = members.find("init_lora_weights");
  if (init == nullptr || init->is_null() || init->is_boolean()) return;
  const std::string way = members.text("init_lora_weights", "");
  for (const char* changing : {"pissa", "corda", "olora", "loftq"}) {
    if (!way.starts_with(changing)) continue;
    fail(
        "{}: init_lora_weights is {}, with which PEFT changes the weights of the base model, too, as is not done here; "
        "convert the adapter: save it in PEFT with path_initial_model_for_weight_conversion",
        path, shown(way));
  }
  if (way != "gaussian" && way != "eva" && way != "orthogonal")
    fail("{}: init_lora_weights is {}; known here are true, false, gaussian, eva and orthogonal", path, shown(way));
}

void read_lora(const JsonMembers& members, const std::string& path, Peft& peft) {
  refuse_unknown(members, path);
  peft.low_rank.rank = members.number("r", 1, 1 << 16, 8);
  peft.low_rank.alpha = members.real("lora_alpha", 0, 1e9, 8);
  // Then the update is alpha / sqrt(rank) B A.
  if (members.flag("use_rslora", false)) peft.low_rank.alpha *= std::sqrt(static_cast<double>(peft.low_rank.rank));
  peft.targets = texts(members, path, "target_modules");
  if (peft.targets.empty()) fail("{}: target_modules names no matrices", path);
  for (const std::string& target : peft.targets) {
    if (!may_be_target(target)) refuse_target(path, target);
  }
}

void read_bottleneck(const JsonMembers& members, const std::string& path, Peft& peft) {
  peft.bottleneck.size = members.number("size", 1, 1 << 20, peft.bottleneck.size);
  peft.both_halves = members.flag("both_halves", true);
  const std::string name = members.text("activation", "gelu");
  try {
    peft.bottleneck.activation = activation_named(name);
  } catch (const Error& error) {
    fail("{}: activation: {}", path, error.what());
  }
}

void read_snnk(const JsonMembers& members, const std::string& path, Peft& peft) {
  SnnkOptions& snnk = peft.snnk;
  snnk.activation = members.text("activation", snnk.activation);
  const std::vector<std::string> known = snnk_activations();
  if (std::find(known.begin(), known.end(), snnk.activation) == known.end())
    fail("{}: activation is {}; known are {}", path, shown(snnk.activation), listed(known));
  snnk.features = members.number("features", 1, 1 << 20, snnk.features);
  snnk.orthogonal = members.flag("orthogonal", snnk.orthogonal);
  snnk.scale_inputs = members.flag("scale_inputs", snnk.scale_inputs);
  snnk.damped = members.flag("damped", snnk.damped);
}

Type type_in(const JsonMembers& members, const std::string& path) {
  const std::string name = members.text("peft_type", "");
  std::vector<std::string> known;
  for (const auto& [type, text] : kTypes) {
    if (text == name) return type;
    known.emplace_back(text);
  }
  fail("{}: peft_type is {}; known here are {}", path, shown(name), listed(known));
}

/// The size that an adapter of this type has: its name in adapter_config.json, and which tensors have it as which size.
struct Size {
  const char* name;
  int64_t value;
  std::string_view tensors;  ///< how their names end
  int dim;
};

Size size_of(const Peft& peft) {
  switch (peft.type) {
    case Type::lora:
      return {"r", peft.low_rank.rank, "lora_A.weight", 0};
    case Type::bottleneck:
      return {"size", peft.bottleneck.size, "adapter.down.weight", 0};
    case Type::snnk_adapter:
      return {"features", peft.snnk.features, "adapter.snnk.weight", 1};
    case Type::snnk_pooler:
      return {"features", peft.snnk.features, "snnk_pooler.pooler.weight", 1};
    case Type::snnk_bundle:
      return {"features", peft.snnk.features, "bundle.weight", 1};
  }
  internal_failure("a size for every type", __FILE__, __LINE__);
}

/// Refuses a size that the tensors in a file do not have, before a model gets matrices of it.
void check_size(const std::string& path, const Size& size, const SafetensorsFile& file) {
  bool found = false;
  for (const std::string& name : file.tensor_names()) {
    if (!ends_as(name, size.tensors)) continue;
    const Shape& shape = file.shape(name);
    if (shape.rank() != 2 || shape[size.dim] != size.value || shape.size() == 0)
      fail("{}: {} is {}, but in {} the tensor {} is {}; take both files of one adapter", path, size.name, size.value,
           file.name(), shown(name), shape.str());
    found = true;
  }
  if (!found) {
    fail("{}: {} is {}, but {} holds no tensor {}; take both files of one adapter", path, size.name, size.value,
         file.name(), size.tensors);
  }
}

/// Refuses options of SNNK layers for which adapter_config.json has no place: reading it again would give another
/// layer.
void check_options(const SnnkOptions& snnk) {
  const SnnkOptions usual;
  const auto refuse = [](const char* name, bool is_usual) {
    if (!is_usual) fail("save_adapter: the option {} of the SNNK layer is not kept in {}; leave it out", name, kConfig);
  };
  refuse("measure", !snnk.measure);
  refuse("A", !snnk.A);
  refuse("eta", snnk.eta == usual.eta);
  refuse("block", snnk.block == usual.block);
  refuse("order", snnk.order == usual.order);
  refuse("bias_coordinate", snnk.bias_coordinate == usual.bias_coordinate);
}

}  // namespace

std::string peft::config_text(PretrainedModel& model, const Peft& peft, const std::string& base) {
  json config;
  const bool pooled = model.type() == "vit" && model.pooler() != nullptr;
  config["peft_type"] = name_of(peft, pooled && model.classes() > 0);
  config["base_model_name_or_path"] = base;
  config["inference_mode"] = true;
  if (pooled) config["pooled"] = true;
  config["modules_to_save"] = peft.modules_to_save.empty() ? json() : json(peft.modules_to_save);
  // Of texts alone, and with it the classifier counts as saved.
  const bool has_classifier = peft.replaces_heads() || is_any("classifier", peft.modules_to_save);
  config["task_type"] = model.classes() > 0 && model.type() == "bert" && has_classifier ? json("SEQ_CLS") : json();
  switch (peft.type) {
    case Type::lora:
      config["r"] = peft.low_rank.rank;
      config["lora_alpha"] = peft.low_rank.alpha;
      config["lora_dropout"] = 0.0;
      config["target_modules"] = targets_in_peft(model, peft.targets);
      config["bias"] = "none";
      config["fan_in_fan_out"] = false;
      config["use_rslora"] = false;
      config["use_dora"] = false;
      config["init_lora_weights"] = true;
      break;
    case Type::bottleneck:
      config["size"] = peft.bottleneck.size;
      config["activation"] = name_of(peft.bottleneck.activation);
      config["both_halves"] = peft.both_halves;
      break;
    case Type::snnk_adapter:
    case Type::snnk_pooler:
    case Type::snnk_bundle:
      check_options(peft.snnk);
      config["activation"] = peft.snnk.activation;
      config["features"] = peft.snnk.features;
      config["orthogonal"] = peft.snnk.orthogonal;
      config["scale_inputs"] = peft.snnk.scale_inputs;
      config["damped"] = peft.snnk.damped;
  }
  return config.dump(2) + "\n";
}

Peft read_peft(const std::filesystem::path& folder) {
  const std::string path = file_in(folder, kConfig).string();
  const json root = read_json_object(path, kLargestAdapterConfig);
  const JsonMembers members(root, path);
  Peft peft;
  peft.type = type_in(members, path);
  peft.modules_to_save = texts(members, path, "modules_to_save");
  peft.pooled = members.flag("pooled", peft.replaces_heads() || members.text("peft_type", "") == kPooledLora);
  // PEFT does the same, and writes it only sometimes.
  if (members.text("task_type", "") == "SEQ_CLS" && !peft.replaces_heads() &&
      !is_any("classifier", peft.modules_to_save)) {
    peft.modules_to_save.emplace_back("classifier");
  }
  if (peft.type == Type::lora) read_lora(members, path, peft);
  if (peft.type == Type::bottleneck) read_bottleneck(members, path, peft);
  if (peft.type == Type::snnk_adapter || peft.replaces_heads()) read_snnk(members, path, peft);
  const SafetensorsFile file(folder / kTensors);
  check_size(path, size_of(peft), file);
  if (peft.type == Type::lora) peft.targets = targets_in_files(std::move(peft.targets), file.tensor_names());
  for (const std::string& name : file.tensor_names()) {
    const bool scores = ends_as(name, "classifier.weight") || ends_as(name, "bundle.weight");
    if (scores && file.shape(name).rank() == 2) peft.classes = file.shape(name)[0];
    if (!ends_as(name, "classifier.bias") && !ends_as(name, "bundle.bias")) continue;
    const std::string weight = name.substr(0, name.rfind('.')) + ".weight";
    if (!file.contains(weight)) fail("{}: holds {}, but no {}", file.name(), shown(name), shown(weight));
  }
  return peft;
}

}  // namespace bochner
