// Models in the folders of Hugging Face's transformers: config.json and model.safetensors, in and out.
//
//   const BertOptions options = read_bert_options(folder);
//   Bert bert({}, options, init);
//   const LoadedTensors loaded = load_pretrained(bert, folder);   // loaded.text() says what came from where
//   save_pretrained(bert, "mine", folder);                        // BertModel.from_pretrained("mine") in Python
//
// Of BERT the architectures BertModel, BertForPreTraining, BertForMaskedLM, BertForNextSentencePrediction and
// BertForSequenceClassification are known, of ViT ViTModel and ViTForImageClassification. Names of tensors are those
// that files have, with or without the prefix `bert.` or `vit.`, and the older `LayerNorm.gamma` and `LayerNorm.beta`.
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

/// What became of the tensors of a model and of a file.
struct LoadedTensors {
  std::vector<std::string> read;       ///< names in the file
  std::vector<std::string> made_new;   ///< names that the file lacks: their initial values stay
  std::vector<std::string> left_over;  ///< names in the file that the model has no use for
  std::set<std::string> filled;        ///< names in the model that are as in the file, none of their parts made new
  std::vector<std::string> reordered;  ///< the classes in the file's order, where the model has them in another
  /// `103 tensors read; made new: classifier.bias, classifier.weight; left over: none`
  std::string text() const;
};

/// `bert` or `vit`: the model_type in config.json, `bochner-bert` being a `bert`. An Error for any other.
std::string pretrained_type(const std::filesystem::path& folder);

/// The names of the classes in config.json, in the order of the classifier's rows; empty where it has none.
std::vector<std::string> pretrained_labels(const std::filesystem::path& folder);

/// The model that config.json describes, with the heads of its architecture. An Error names what is not known here,
/// such as another activation, and numbers for which model.safetensors is too small.
BertOptions read_bert_options(const std::filesystem::path& folder);
VitOptions read_vit_options(const std::filesystem::path& folder);

/// Copies the tensors of model.safetensors into a model. What the file lacks of heads, pooler and attention mechanism
/// is made new, and so is a classifier for which the file has another number of classes. Where the classes have names
/// both in the model's options and in config.json, rows of the classifier go to the class of their name, whose case
/// does not count; classes that are called by their numbers, as `LABEL_0` or `0`, have none. An Error names a tensor of
/// another size, with both, one of the trunk that is missing, classes of other names, and a decoder of masked tokens
/// that is not tied to the embeddings; the model is then as before.
LoadedTensors load_pretrained(PretrainedModel& model, const std::filesystem::path& folder);

/// The path of model.safetensors. An Error where there is none says what to do.
std::filesystem::path pretrained_weights(const std::filesystem::path& folder);

/// Tensors under the names and in the shapes that files have, from tensors under the names of the model: its state, or
/// gradients of its parameters. Q, K and V, one matrix here, are three there. They are views.
std::map<std::string, Tensor> pretrained_tensors(const PretrainedModel& model,
                                                 const std::map<std::string, Tensor>& named);

/// Who may read a folder.
enum class Reader : unsigned char {
  transformers,  ///< what it would compute differently is an Error
  /// This library. If blocks have another attention than softmax, or heads of another size, the model_type is
  /// `bochner-bert`, and config.json says which attention, with its options, which blocks have it and how large heads
  /// are. AutoModel of transformers refuses that type; BertModel.from_pretrained warns of it and computes softmax. Else
  /// the folder is one for transformers.
  own
};

/// Puts `asked` into the blocks of a model whose options were read from `folder`: into those that `blocks` names
/// (block_numbers), or into all. An attention that the folder names itself belongs to its weights and stays, with the
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

/// Writes config.json and model.safetensors into `folder`, which is made if it is missing, and copies the files of the
/// tokenizer and of the preparation of images from the folder `from` if it has them. An Error where the model has heads
/// of two architectures or something was added to it (peft.h), or, where transformers is to read it, a block with
/// another attention than softmax: transformers would compute something else.
void save_pretrained(Bert& model, const std::filesystem::path& folder, const std::filesystem::path& from = {},
                     Reader reader = Reader::transformers);
void save_pretrained(Vit& model, const std::filesystem::path& folder, const std::filesystem::path& from = {});

}  // namespace bochner
