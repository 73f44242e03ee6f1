// Runs a pretrained BERT or ViT on the caller's own inputs, from one safetensors file to another, to compare it with
// another implementation.
#pragma once

#include <filesystem>
#include <string>

#include "engine/io/safetensors.h"
#include "layers/models/hugging_face.h"
#include "layers/models/peft.h"

namespace bochner {

struct ModelCall {
  std::filesystem::path folder;   ///< of the weights
  std::filesystem::path adapter;  ///< folder of an adapter that is added to them; empty: none
  MechanismOptions mechanism;     ///< in place of softmax
  std::string blocks;             ///< the blocks that have it, in the form that block_numbers() reads; empty: all
  bool training = false;          ///< with dropout
  uint64_t seed = 1;              ///< of newly made parameters, and of all draws
  Device device = Device::cpu();
  std::filesystem::path to;  ///< folder to write the model into, an adapter merged; empty: none
};

struct ModelAnswer {
  TensorMap tensors;
  LoadedTensors loaded;  ///< tensors from the adapter do not count as made new
};

/// Reads `input_ids` (B, L), and optionally `attention_mask` (B, L), not 0 at real tokens, and `token_type_ids` (B, L);
/// for a ViT `pixel_values` (B, C, H, W). Returns `last_hidden_state`, `hidden_states.0` (embeddings) and so on,
/// `pooler_output` if there is a pooler, and the scores of the heads under transformers' names: `logits`, or
/// `prediction_logits` and `seq_relationship_logits` of BertForPreTraining. If the gradient `dNAME` of an output is
/// given, also returns the gradient `dNAME` of each parameter, by its name in files. `given` may be empty, to load and
/// export only. An Error names a tensor that is missing, unknown or of the wrong shape.
ModelAnswer answer_tensors(const ModelCall& call, const TensorMap& given);

}  // namespace bochner
