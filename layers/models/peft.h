// Adapters: what is added to a pretrained, frozen BERT or ViT and trained in its place, and the folders that hold it
// alone, as Hugging Face's PEFT writes them: adapter_config.json and adapter_model.safetensors.
//
//   const Peft peft = read_peft(folder);       // or of your own: {.type = Peft::Type::lora, .low_rank = {8, 16}}
//   add_adapter(model, peft, init);            // the model computes the same as before ...
//   load_adapter(model, peft, folder);         // ... until it gets trained values
//   save_adapter(model, peft, "mine", base);   // PeftModel.from_pretrained(model, "mine") in Python, where it is LoRA
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "layers/models/pretrained.h"

namespace bochner {

/// What is added. Only `lora` is a type of PEFT, too, and not of a ViT with a classifier that is `pooled`: transformers
/// has no such model, and the type is then LORA_POOLED, which PEFT refuses.
struct Peft {
  enum class Type : unsigned char {
    lora,          ///< updates of low rank of the `targets`
    bottleneck,    ///< bottleneck adapters behind each feed-forward network, and behind each attention if `both_halves`
    snnk_adapter,  ///< SNNK adapters behind both (SNNK Appendix D)
    snnk_pooler,   ///< an SNNK layer in the place of the pooler (SNNK Appendix E)
    snnk_bundle    ///< one matrix W Phi(x) + b in the place of pooler and classifier (SNNK J.3)
  };
  Type type = Type::lora;
  LowRankOptions low_rank = {};
  /// The matrices with an update, by the ends of their names in files: query, key, value, attention.output.dense,
  /// intermediate.dense, output.dense, pooler.dense, classifier. `dense` means all that end so. Those of a ViT may also
  /// be called q_proj, k_proj, v_proj, o_proj, fc1 and fc2, as in transformers since its version 5; folders have these.
  std::vector<std::string> targets = {"query", "value"};
  BottleneckOptions bottleneck = {};
  bool both_halves = true;
  /// Of the types of SNNK. save_adapter refuses other values of measure, A, eta, block, order and bias_coordinate than
  /// the usual ones.
  SnnkOptions snnk = {};
  /// Parts of the model itself that are trained and saved as well, by the ends of their names in files.
  std::vector<std::string> modules_to_save = {"classifier"};
  /// Of ViT: the classifier reads what the pooler gives, not the state of the first token itself.
  bool pooled = false;
  int64_t classes = 0;  ///< those of the classifier that a folder holds; 0: it holds none

  /// Whether it takes the place of pooler and classifier.
  bool replaces_heads() const { return type == Type::snnk_pooler || type == Type::snnk_bundle; }
};

/// What adapter_config.json describes. An Error names what is not known here and would change what is computed, such as
/// use_dora, and a size that the tensors of adapter_model.safetensors do not have.
Peft read_peft(const std::filesystem::path& folder);

/// Adds it to a model. Targets within modules_to_save get no update, as in PEFT. An Error names a target that no matrix
/// of the model is, and targets of which none gets one.
void add_adapter(PretrainedModel& model, const Peft& peft, Generator& init);

/// Copies adapter_model.safetensors into a model that has this adapter; returns the names in the model of what was
/// read. Rows of classes are there in the order of the base's folder. An Error names a tensor that is missing, that
/// does not belong to this adapter, or whose shape is another; the model is then as before.
std::vector<std::string> load_adapter(PretrainedModel& model, const Peft& peft, const std::filesystem::path& folder);

/// Writes both files into `folder`, which is made if it is missing. `base` is the folder or the name of the pretrained
/// model, and rows of classes have the order that they have there.
void save_adapter(PretrainedModel& model, const Peft& peft, const std::filesystem::path& folder,
                  const std::string& base);

/// Adds all updates of low rank to their matrices. The model then computes the same, up to rounding, and
/// save_pretrained can write it.
void merge_adapter(PretrainedModel& model);

}  // namespace bochner
