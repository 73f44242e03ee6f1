#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/io/bytes.h"
#include "engine/io/json_file.h"
#include "engine/io/paths.h"
#include "engine/io/safetensors.h"
#include "engine/nearest.h"
#include "layers/models/hugging_face.h"

namespace bochner {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kLargestConfig = int64_t{16} << 20;
constexpr const char* kOwnType = "bochner-bert";
constexpr const char* kSinusoidal = "sinusoidal_pos_embds";  // as DistilBERT's config.json has it; BERT's ignores it

struct Config {
  explicit Config(const std::filesystem::path& folder)
      : path(file_in(folder, "config.json").string()),
        root(read_json_object(path, kLargestConfig)),
        members(root, path) {}

  std::string path;
  json root;
  JsonMembers members;

  Activation activation() const {
    const std::string name = members.text("hidden_act", "gelu");
    for (const auto& [theirs, ours] : kActivations) {
      if (theirs == name) return ours;
    }
    fail("{}: hidden_act is {}; known here are {}", path, shown(name), listed(names_of_activations()));
  }
  static std::vector<std::string> names_of_activations() {
    std::vector<std::string> names;
    names.reserve(kActivations.size());
    for (const auto& [theirs, ours] : kActivations) names.emplace_back(theirs);
    return names;
  }
  double share(const char* name, double otherwise) const { return members.real(name, 0, 1, otherwise); }
  int64_t size(const char* name, int64_t otherwise) const { return members.number(name, 1, 1 << 24, otherwise); }
  std::string architecture(const std::string& otherwise) const {
    const json* list = members.find("architectures");
    if (list == nullptr) return otherwise;
    const bool one = list->is_array() && list->size() == 1 && (*list)[0].is_string();
    const std::string name = one ? (*list)[0].get<std::string>() : "";
    if (!one || shown(name) != "'" + name + "'")  // messages hold it as it is
      fail("{}: architectures is {}, not a list of one name", path, brief(*list));
    return name;
  }
  /// The names of the classes, in the order of the classifier's rows; empty if config.json has none.
  std::vector<std::string> labels() const {
    const json* labels = members.find("id2label");
    if (labels == nullptr) return {};
    if (!labels->is_object()) fail("{}: id2label is no object with names of labels", path);
    std::vector<std::string> names;
    for (size_t i = 0; i < labels->size(); ++i) {
      const auto found = labels->find(std::to_string(i));
      if (found == labels->end() || !found->is_string()) fail("{}: id2label has no name of the label {}", path, i);
      names.push_back(found->get<std::string>());
    }
    return names;
  }
  template <class Options>
  void read_classes(Options& options) const {
    options.labels = labels();
    if (options.labels.empty() && members.find("id2label") != nullptr)
      fail("{}: id2label is empty; a classifier without classes is not known here", path);
    options.problem_type = members.text("problem_type", "");
    const std::array<std::string_view, 4> known = {"", kRegressionProblem, kOneLabelProblem, kSeveralLabelsProblem};
    refuse_unless(std::ranges::find(known, options.problem_type) != known.end(), "problem_type");
    options.classes = options.labels.empty() ? members.number("num_labels", 1, 1 << 24, 2) : std::ssize(options.labels);
  }
  void refuse_unless(bool known, const char* name) const {
    if (!known) fail("{}: {} is {}, which is not known here", path, name, brief(members.at(name)));
  }

  static constexpr std::array<std::pair<std::string_view, Activation>, 7> kActivations = {
      {{"gelu", Activation::gelu},
       {"gelu_new", Activation::gelu_tanh},
       {"gelu_pytorch_tanh", Activation::gelu_tanh},
       {"gelu_fast", Activation::gelu_tanh},
       {"relu", Activation::relu},
       {"gelu_python", Activation::gelu},
       {"gelu_python_tanh", Activation::gelu_tanh}}};
};

/// What BertOptions and VitOptions have in common.
template <class Options>
void read_trunk(const Config& config, Options& options) {
  options.layers = config.members.number("num_hidden_layers", 0, 4096, options.layers);
  options.dim = config.members.number("hidden_size", 1, 1 << 16, options.dim);
  options.hidden = config.members.number("intermediate_size", 1, 1 << 20, options.hidden);
  options.attention.heads = config.members.number("num_attention_heads", 1, 1 << 16, options.attention.heads);
  options.attention_dropout = config.share("attention_probs_dropout_prob", options.attention_dropout);
  options.activation = config.activation();
  options.dropout = config.share("hidden_dropout_prob", options.dropout);
  options.norm_eps = config.members.real("layer_norm_eps", 0, 1, options.norm_eps);
  options.deviation = config.members.real("initializer_range", 0, 1e3, options.deviation);
  const bool own = config.members.text("model_type", "") == kOwnType;  // heads of any size
  if (!own && options.dim % options.attention.heads != 0) {
    fail("{}: {} heads do not divide hidden_size {}", config.path, options.attention.heads, options.dim);
  }
}

/// Refuses sizes for which the weights have too few bytes, before a model of that size is made. Besides its blocks it
/// has so many rows of `dim` numbers.
template <class Options>
void check_bytes(const Config& config, const std::filesystem::path& folder, const Options& options, int64_t rows) {
  const std::filesystem::path weights = pretrained_weights(folder);
  const MultiHeadOptions& attention = options.attention;
  const int64_t inner = attention.head_dim > 0 ? attention.heads * attention.head_dim : options.dim;
  const int64_t least =
      (rows + options.classes) * options.dim + options.layers * 2 * options.dim * (2 * inner + options.hidden);
  (void)SafetensorsFile(weights);  // throws its own Error if the file is truncated or not of this format
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(weights));
  if (least > bytes) {
    fail("{}: its sizes ask for at least {} numbers, but {} has {} bytes", config.path, least, weights.string(), bytes);
  }
}

std::string activation_in_file(Activation activation) {
  for (const auto& [theirs, ours] : Config::kActivations) {
    if (ours == activation) return std::string(theirs);
  }
  fail("save_pretrained: transformers has no name for the activation {}", name_of(activation));
}

ordered_json labels_of(int64_t classes, const std::vector<std::string>& names) {
  ordered_json labels = ordered_json::object();
  for (int64_t i = 0; i < classes; ++i) {
    const std::string number = std::to_string(i);
    labels[number] = std::ssize(names) == classes ? names[static_cast<size_t>(i)] : "LABEL_" + number;
  }
  return labels;
}

/// Whether transformers knows the attention of the blocks.
template <class Options>
bool is_known_there(const Options& options) {
  const MultiHeadOptions& attention = options.attention;
  const bool softmax = attention.mechanism.name() == "softmax" || options.layers == 0;
  return softmax && (attention.head_dim == 0 || attention.heads * attention.head_dim == options.dim);
}

ordered_json attention_config(const BertOptions& options) {
  MechanismOptions mechanism = options.attention.mechanism;
  ordered_json settings = ordered_json::object();
  for (const Option& option : mechanism.list()) settings[option.name()] = option.text();
  return {{"mechanism", mechanism.name()},
          {"options", settings},
          {"blocks", options.attention_blocks},
          {"head_size", options.attention.head_dim}};
}

/// What attention_config wrote.
void read_attention(const Config& config, BertOptions& options) {
  const json& found = config.members.at("attention");
  const std::string where = config.path + ": attention";
  if (!found.is_object()) fail("{} is no object", where);
  const JsonMembers members(found, where);
  options.attention.head_dim = members.number("head_size", 0, 1 << 16, 0);
  try {
    MechanismOptions mechanism(members.text("mechanism", "softmax"));
    if (const json* settings = members.find("options")) {
      if (!settings->is_object()) fail("options are no object");
      for (const auto& [name, value] : settings->items()) {
        if (!value.is_string()) fail("the value {} of an option is no text", brief(value));
        mechanism.set(name, value.get<std::string>());
      }
    }
    mechanism.list().validate();
    if (mechanism.has("length") && std::stoll(mechanism.text("length")) > options.length) {
      fail("option length is {}, but the model has {} positions", mechanism.text("length"), options.length);
    }
    options.attention.mechanism = mechanism;
  } catch (const Error& error) {
    fail("{}: {}", where, error.what());
  }
  const json* blocks = members.find("blocks");
  if (blocks == nullptr) return;
  if (!blocks->is_array()) fail("{}: blocks is no list", where);
  for (const json& block : *blocks) {
    if (!block.is_number_unsigned() || block.get<uint64_t>() >= static_cast<uint64_t>(options.layers)) {
      fail("{}: blocks holds {}, which is no number of one of {} blocks", where, brief(block), options.layers);
    }
    options.attention_blocks.push_back(block.get<int64_t>());
  }
}

template <class Options>
ordered_json trunk_config(const Options& options, const char* type, const std::string& architecture) {
  if (type != std::string(kOwnType) && options.attention.mechanism.name() != "softmax" && options.layers > 0) {
    fail(
        "save_pretrained: blocks have the attention {}, which transformers does not know; only softmax can be exported",
        options.attention.mechanism.name());
  }
  if (type != std::string(kOwnType) && !is_known_there(options)) {
    fail("save_pretrained: {} heads of {} are not the model's size {}, as transformers wants", options.attention.heads,
         options.attention.head_dim, options.dim);
  }
  ordered_json config;
  config["architectures"] = {architecture};
  config["model_type"] = type;
  config["hidden_size"] = options.dim;
  config["num_hidden_layers"] = options.layers;
  config["num_attention_heads"] = options.attention.heads;
  config["intermediate_size"] = options.hidden;
  config["hidden_act"] = activation_in_file(options.activation);
  config["hidden_dropout_prob"] = options.dropout;
  config["attention_probs_dropout_prob"] = options.attention_dropout;
  config["layer_norm_eps"] = options.norm_eps;
  config["initializer_range"] = options.deviation;
  if (options.classes > 0) {
    const ordered_json labels = labels_of(options.classes, options.labels);
    config["id2label"] = labels;
    for (int64_t i = 0; i < options.classes; ++i)  // which transformers does not make of the other
      config["label2id"][labels[std::to_string(i)].get<std::string>()] = i;
  }
  if (options.classes > 0 && !options.problem_type.empty()) config["problem_type"] = options.problem_type;
  return config;
}

}  // namespace

std::filesystem::path pretrained_weights(const std::filesystem::path& folder) {
  std::filesystem::path path = folder / "model.safetensors";
  if (std::filesystem::exists(path)) return path;
  for (const char* other : {"model.safetensors.index.json", "pytorch_model.bin"}) {
    if (std::filesystem::exists(folder / other)) {
      fail("{}: holds {} and no model.safetensors; in transformers, save_pretrained writes one", folder.string(),
           other);
    }
  }
  fail("{}: holds no model.safetensors", folder.string());
}

std::string pretrained_type(const std::filesystem::path& folder) {
  const Config config(folder);
  std::string type = config.members.text("model_type", "");
  if (type == kOwnType) return "bert";
  if (type != "bert" && type != "vit")
    fail("{}: model_type is {}; known here are bert and vit", config.path, shown(type));
  return type;
}

std::vector<std::string> pretrained_labels(const std::filesystem::path& folder) { return Config(folder).labels(); }

BertOptions read_bert_options(const std::filesystem::path& folder) {
  const Config config(folder);
  const JsonMembers& members = config.members;
  const bool own = members.text("model_type", "") == kOwnType;
  if (!own) members.require("model_type", "bert");
  config.refuse_unless(members.text("position_embedding_type", "absolute") == "absolute", "position_embedding_type");
  config.refuse_unless(!members.flag("is_decoder", false), "is_decoder");
  config.refuse_unless(!members.flag("add_cross_attention", false), "add_cross_attention");
  BertOptions options;
  read_trunk(config, options);
  options.vocabulary = config.size("vocab_size", options.vocabulary);
  options.length = config.size("max_position_embeddings", options.length);
  if (own) read_attention(config, options);
  if (members.flag(kSinusoidal, false)) options.positions = BertOptions::Positions::sinusoidal;
  options.types = config.size("type_vocab_size", options.types);
  const bool unpadded = config.root.contains("pad_token_id") && members.find("pad_token_id") == nullptr;
  options.padding = unpadded ? -1 : members.number("pad_token_id", 0, options.vocabulary - 1, 0);
  options.classifier_dropout = config.share("classifier_dropout", options.dropout);
  const std::string architecture = config.architecture("BertModel");
  const bool both = architecture == "BertForPreTraining";
  options.masked_tokens = both || architecture == "BertForMaskedLM";
  const bool tied = members.flag("tie_word_embeddings", true);
  config.refuse_unless(tied || !options.masked_tokens, "tie_word_embeddings");
  options.next_sentence = both || architecture == "BertForNextSentencePrediction";
  if (architecture == "BertForSequenceClassification") config.read_classes(options);
  options.pooler = architecture != "BertForMaskedLM";
  if (!options.masked_tokens && !options.next_sentence && options.classes == 0 && architecture != "BertModel") {
    fail(
        "{}: the architecture {} is not known here; known are BertModel, BertForPreTraining, BertForMaskedLM, "
        "BertForNextSentencePrediction and BertForSequenceClassification",
        config.path, architecture);
  }
  const int64_t of_heads = (options.pooler ? options.dim : 0) + (options.masked_tokens ? options.dim : 0);
  check_bytes(config, folder, options, options.vocabulary + options.length + options.types + of_heads);
  return options;
}

VitOptions read_vit_options(const std::filesystem::path& folder) {
  const Config config(folder);
  const JsonMembers& members = config.members;
  members.require("model_type", "vit");
  config.refuse_unless(members.flag("qkv_bias", true), "qkv_bias");
  config.refuse_unless(members.text("pooler_act", "tanh") == "tanh", "pooler_act");
  VitOptions options;
  read_trunk(config, options);
  config.refuse_unless(members.number("pooler_output_size", 1, 1 << 24, options.dim) == options.dim,
                       "pooler_output_size");
  options.image = members.number("image_size", 1, 1 << 14, options.image);
  options.patch = members.number("patch_size", 1, 1 << 14, options.patch);
  options.channels = members.number("num_channels", 1, 1 << 12, options.channels);
  const std::string architecture = config.architecture("ViTModel");
  if (architecture == "ViTForImageClassification") config.read_classes(options);
  options.pooler = architecture == "ViTModel";
  if (!options.pooler && options.classes == 0) {
    fail("{}: the architecture {} is not known here; known are ViTModel and ViTForImageClassification", config.path,
         architecture);
  }
  const int64_t side = options.image / options.patch;
  const int64_t of_pooler = options.pooler ? options.dim : 0;
  check_bytes(config, folder, options, side * side + options.channels * options.patch * options.patch + of_pooler);
  return options;
}

std::string pretrained_config(const Bert& model, Reader reader) {
  const BertOptions& options = model.options();
  const bool pretraining = options.masked_tokens || options.next_sentence;
  if (pretraining && options.classes > 0)
    fail("save_pretrained: a classifier beside the heads of pretraining; transformers has no such architecture");
  const char* architecture = options.masked_tokens && options.next_sentence ? "BertForPreTraining"
                             : options.masked_tokens                        ? "BertForMaskedLM"
                             : options.next_sentence                        ? "BertForNextSentencePrediction"
                             : options.classes > 0                          ? "BertForSequenceClassification"
                                                                            : "BertModel";
  const bool own = reader == Reader::own && !is_known_there(options);
  ordered_json config = trunk_config(options, own ? kOwnType : "bert", architecture);
  if (own) config["attention"] = attention_config(options);
  config["vocab_size"] = options.vocabulary;
  config["max_position_embeddings"] = options.length;
  if (options.positions == BertOptions::Positions::sinusoidal) config[kSinusoidal] = true;
  config["type_vocab_size"] = options.types;
  config["pad_token_id"] = options.padding >= 0 ? ordered_json(options.padding) : ordered_json();
  config["classifier_dropout"] = options.classifier_dropout;
  config["tie_word_embeddings"] = true;
  return config.dump(2) + "\n";
}

std::string pretrained_config(const Vit& model) {
  const VitOptions& options = model.options();
  if (options.pooler && options.classes > 0)
    fail("save_pretrained: a classifier beside a pooler; transformers has no such architecture");
  ordered_json config = trunk_config(options, "vit", options.classes > 0 ? "ViTForImageClassification" : "ViTModel");
  config["image_size"] = options.image;
  config["patch_size"] = options.patch;
  config["num_channels"] = options.channels;
  config["qkv_bias"] = true;
  return config.dump(2) + "\n";
}

}  // namespace bochner
