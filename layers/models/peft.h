// Adapters: modules that are added to a pretrained, frozen BERT or ViT and trained instead of it, and the folders that
// hold only these, as Hugging Face's PEFT writes them: adapter_config.json and adapter_model.safetensors.
//
//   const Peft peft = read_peft(folder);       // or of your own: {.type = Peft::Type::lora, .low_rank = {8, 16}}
//   add_adapter(model, peft, init);            // the model computes the same as before, or nearly so ...
//   load_adapter(model, peft, folder);         // ... until it gets trained values
//   save_adapter(model, peft, "mine", base);   // PeftModel.from_pretrained(model, "mine") in Python, where it is LoRA
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "layers/models/pretrained.h"

namespace bochner {

/// What is added. Only `lora` is a type of PEFT, too, but not for a ViT whose classifier is `pooled`: transformers has
/// no such model, and the type is then LORA_POOLED, which PEFT refuses.
struct Peft {
  enum class Type : unsigned char {
    lora,          ///< low-rank updates of the `targets`
    bottleneck,    ///< bottleneck adapters after each feed-forward network, and after each attention if `both_halves`
    snnk_adapter,  ///< SNNK adapters after both (SNNK Appendix D)
    snnk_pooler,   ///< an SNNK layer in place of the pooler (SNNK Appendix E)
    snnk_bundle    ///< one matrix W Phi(x) + b in place of pooler and classifier (SNNK J.3)
  };
  Type type = Type::lora;
  LowRankOptions low_rank = {};
  /// The matrices that get an update, by the ends of their names in files: query, key, value, attention.output.dense,
  /// intermediate.dense, output.dense, pooler.dense, classifier. `dense` means all that end in it. Those of a ViT may
  /// also be called q_proj, k_proj, v_proj, o_proj, fc1 and fc2, as in transformers since version 5; folders have these
  /// names.
  std::vector<std::string> targets = {"query", "value"};
  BottleneckOptions bottleneck = {};
  bool both_halves = true;
  /// For the SNNK types. save_adapter refuses values of measure, A, eta, block, order and bias_coordinate other than
  /// the defaults.
  SnnkOptions snnk = {};
  /// Parts of the model itself that are trained and saved as well, by the ends of their names in files.
  std::vector<std::string> modules_to_save = {"classifier"};
  /// For ViT: the classifier reads the pooler's output, not the state of the first token itself.
  bool pooled = false;
  int64_t classes = 0;  ///< those of the classifier that a folder holds; 0: it holds none

  /// Whether it replaces pooler and classifier.
  bool replaces_heads() const { return type == Type::snnk_pooler || type == Type::snnk_bundle; }
};

/// What adapter_config.json describes. An Error names an unsupported setting that would change the result, such as
/// use_dora, or a size that the tensors of adapter_model.safetensors do not have.
Peft read_peft(const std::filesystem::path& folder);

/// Adds the adapter to a model. Targets within modules_to_save get no update, as in PEFT. An Error names a target that
/// matches no matrix of the model, or the targets if none of them gets an update.
void add_adapter(PretrainedModel& model, const Peft& peft, Generator& init);

/// Copies adapter_model.safetensors into a model that has this adapter; returns the model's names of the tensors that
/// were read. In the file, rows of classes are in the order of the base model's folder. An Error names a tensor that is
/// missing, that does not belong to this adapter, or that has another shape; the model is then unchanged.
std::vector<std::string> load_adapter(PretrainedModel& model, const Peft& peft, const std::filesystem::path& folder);

/// Writes both files into `folder`, which is created if it is missing. `base` is the folder or the name of the
/// pretrained model; rows of classes are written in its order.
void save_adapter(PretrainedModel& model, const Peft& peft, const std::filesystem::path& folder,
                  const std::string& base);

/// Adds all low-rank updates to their matrices. The model then computes the same, up to rounding, and save_pretrained
/// can write it.
void merge_adapter(PretrainedModel& model);

}  // namespace bochner
