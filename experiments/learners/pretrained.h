// The folder of a pretrained model, which every program names by --pretrained: what it must hold, and what must fit it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "experiments/common/config/fields.h"
#include "experiments/learners/examples.h"
#include "experiments/learners/mechanism_config.h"
#include "layers/models/hugging_face.h"

namespace bochner {

/// The model in a folder. An Error if no folder is named, or if the model is of another type.
BertOptions pretrained_bert(const std::filesystem::path& folder);
VitOptions pretrained_vit(const std::filesystem::path& folder);

/// Adds the file of a model's initial weights to the DataLog, the record of what was read. Returns its SHA-256.
std::string record_weights(const std::filesystem::path& file);

/// `ids` of a batch, with `mask` and `types` where it has them.
Bert::Input input_of(const Examples& batch);

/// --export RUN and --to FOLDER: writes the model of a run as a folder for --pretrained and for transformers.
struct ExportConfig {
  std::string exported{};
  std::string to{};

  /// `beside`: what the folder holds in addition to config.json and model.safetensors.
  void fields(Fields& f, const std::string& beside);
  /// The folder given by --to. An Error if none is given, or if it holds files.
  std::filesystem::path folder() const;
};

/// An Error if the model has fewer positions than --max-length allows tokens in a text.
void require_positions(const BertOptions& options, int64_t max_length);
/// An Error if the tokenizer in the folder has more ids than the model there has tokens.
void require_tokens(const BertOptions& options, int64_t ids, const std::filesystem::path& folder);

/// If the BERT in the folder has an attention other than softmax, which belongs to its weights: sets `attention` to it
/// where nobody has chosen --attention. If `attention` is that one, sets its options, fields of `group`, to the
/// folder's, and refuses them on the command line. A folder without a model is left to whoever reads it.
void take_attention_of(const std::filesystem::path& folder, Fields& fields, const std::string& group,
                       std::string& attention, MechanismConfig& mechanism);

}  // namespace bochner
