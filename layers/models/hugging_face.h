// Models in the folders of Hugging Face's transformers: config.json and model.safetensors, in and out.
//
//   const BertOptions options = read_bert_options(folder);
//   Bert bert({}, options, init);
//   const LoadedTensors loaded = load_pretrained(bert, folder);   // loaded.text() says what came from where
//   save_pretrained(bert, "mine", folder);                        // BertModel.from_pretrained("mine") in Python
//
// The known architectures of BERT are BertModel, BertForPreTraining, BertForMaskedLM, BertForNextSentencePrediction and
// BertForSequenceClassification; those of ViT are ViTModel and ViTForImageClassification. Tensors have the names that
// files use, with or without the prefix `bert.` or `vit.`, or the older `LayerNorm.gamma` and `LayerNorm.beta`.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "layers/models/bert.h"
#include "layers/models/vit.h"

namespace bochner {

/// What the scores of a classifier mean, as transformers names it in config.json.
inline constexpr const char* kRegressionProblem = "regression";
inline constexpr const char* kOneLabelProblem = "single_label_classification";
inline constexpr const char* kSeveralLabelsProblem = "multi_label_classification";

/// What happened to the tensors of a model and of a file.
struct LoadedTensors {
  std::vector<std::string> read;       ///< names in the file
  std::vector<std::string> made_new;   ///< names that the file lacks: they keep their initial values
  std::vector<std::string> left_over;  ///< names in the file that the model has no use for
  std::set<std::string> filled;        ///< names in the model whose values are all from the file
  std::vector<std::string> reordered;  ///< the classes in the file's order, if the model's order is another
  /// `103 tensors read; made new: classifier.bias, classifier.weight; left over: none`
  std::string text() const;
};

/// `bert` or `vit`: the model_type in config.json, where `bochner-bert` counts as `bert`. An Error for any other.
std::string pretrained_type(const std::filesystem::path& folder);

/// The names of the classes in config.json, in the order of the classifier's rows; empty if it has none.
std::vector<std::string> pretrained_labels(const std::filesystem::path& folder);

/// The model that config.json describes, with the heads of its architecture. An Error names what is not supported, such
/// as another activation, or sizes for which model.safetensors is too small.
BertOptions read_bert_options(const std::filesystem::path& folder);
VitOptions read_vit_options(const std::filesystem::path& folder);

/// Copies the tensors of model.safetensors into a model. Parts of heads, pooler and attention mechanism that the file
/// lacks are made new, and so is the classifier if the file has another number of classes. If the classes have names
/// both in the model's options and in config.json, each row of the classifier goes to the class of its name, ignoring
/// case; classes that are called by their numbers, such as `LABEL_0` or `0`, have no names. An Error names a tensor of
/// another size, with both sizes, a missing tensor of the trunk, classes of other names, or a decoder of masked tokens
/// that is not tied to the embeddings; the model is then unchanged.
LoadedTensors load_pretrained(PretrainedModel& model, const std::filesystem::path& folder);

/// The path of model.safetensors. If there is none, an Error says what to do.
std::filesystem::path pretrained_weights(const std::filesystem::path& folder);

/// Converts tensors from the names of the model (its state, or gradients of its parameters) to the names and shapes of
/// files. Q, K and V are one matrix here and three there. The results are views.
std::map<std::string, Tensor> pretrained_tensors(const PretrainedModel& model,
                                                 const std::map<std::string, Tensor>& named);

/// Who is to read a folder.
enum class Reader : unsigned char {
  transformers,  ///< what it would compute differently is an Error
  /// This library. If blocks have another attention than softmax, or heads of another size, the model_type is
  /// `bochner-bert`, and config.json says which attention, with its options, which blocks have it and how large heads
  /// are. AutoModel of transformers refuses that type; BertModel.from_pretrained gives a warning and computes softmax.
  /// Else the folder is one for transformers.
  own
};

/// Sets the attention `asked` in options that were read from `folder`: for the blocks that `blocks` names
/// (block_numbers), or for all. An attention that the folder itself names belongs to its weights and is kept, with the
/// folder's options; an Error if another one, or other blocks, are asked for.
template <class Options>  // BertOptions or VitOptions
void set_attention(Options& options, const std::filesystem::path& folder, const MechanismOptions& asked,
                   std::string_view blocks = {}) {
  if (const std::string own = options.attention.mechanism.name(); own != "softmax") {
    if (asked.name() == own && blocks.empty()) return;
    fail("{}: the model has the attention {}, to which its weights belong; say --attention={}, for no other blocks",
         folder.string(), own, own);
  }
  options.attention.mechanism = asked;
  if (!blocks.empty()) options.attention_blocks = block_numbers(blocks, options.layers);
}

/// The text of config.json. Errors are those of save_pretrained.
std::string pretrained_config(const Bert& model, Reader reader = Reader::transformers);
std::string pretrained_config(const Vit& model);

/// Writes config.json and model.safetensors into `folder`, which is created if it is missing, and copies the files of
/// the tokenizer and of image preparation from the folder `from` if it has them. An Error if the model has heads of two
/// architectures, if something was added to it (peft.h), or if transformers is to read it and a block has an attention
/// other than softmax: transformers would compute something else.
void save_pretrained(Bert& model, const std::filesystem::path& folder, const std::filesystem::path& from = {},
                     Reader reader = Reader::transformers);
void save_pretrained(Vit& model, const std::filesystem::path& folder, const std::filesystem::path& from = {});

}  // namespace bochner
