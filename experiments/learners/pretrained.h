// The folder of a pretrained model, as --pretrained of every program names it: what it must be, and what must fit it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "experiments/common/config/fields.h"
#include "experiments/learners/examples.h"
#include "experiments/learners/mechanism_config.h"
#include "layers/models/hugging_face.h"

namespace bochner {

/// The model in a folder. An Error where no folder is named, and of a model of another type.
BertOptions pretrained_bert(const std::filesystem::path& folder);
VitOptions pretrained_vit(const std::filesystem::path& folder);

/// The file of the weights that a model begins with, for the record of what was read: adds it to the DataLog. Returns
/// its SHA-256.
std::string record_weights(const std::filesystem::path& file);

/// `ids` of a batch, with `mask` and `types` where it has them.
Bert::Input input_of(const Examples& batch);

/// --export RUN and --to FOLDER: the model of a run as a folder for --pretrained and for transformers.
struct ExportConfig {
  std::string exported{};
  std::string to{};

  /// `beside` is what the folder holds beside config.json and model.safetensors.
  void fields(Fields& f, const std::string& beside);
  /// The folder --to. An Error where none is named, or where it holds files.
  std::filesystem::path folder() const;
};

/// An Error where the model has fewer positions than texts may have tokens, by --max-length.
void require_positions(const BertOptions& options, int64_t max_length);
/// An Error where the tokenizer in the folder has more ids than the model there has tokens.
void require_tokens(const BertOptions& options, int64_t ids, const std::filesystem::path& folder);

/// If the BERT in the folder has another attention than softmax, which belongs to its weights: where nobody has chosen
/// --attention, `attention` becomes it, and then its options, fields of `group`, become the folder's and are refused on
/// the command line. A folder without a model is left to whoever reads it.
void take_attention_of(const std::filesystem::path& folder, Fields& fields, const std::string& group,
                       std::string& attention, MechanismConfig& mechanism);

}  // namespace bochner
