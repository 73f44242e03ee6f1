// What BERT and ViT have in common: how their options become options of blocks. All weights are normally distributed at
// first.
#pragma once

#include <vector>

#include "layers/models/block.h"

namespace bochner {

/// Options is BertOptions or VitOptions.
template <class Options>
LinearOptions normal_weights(const Options& options) {
  return {.init = LinearOptions::Init::normal, .deviation = options.deviation};
}

/// The blocks of `options`; those that do not have its attention have softmax. `length` is that of the longest
/// sequence.
template <class Options>
std::vector<BlockOptions> pretrained_blocks(const Options& options, BlockOptions::Order order, int64_t length) {
  BlockOptions block{.dim = options.dim,
                     .hidden = options.hidden,
                     .order = order,
                     .attention = options.attention,
                     .activation = options.activation,
                     .linear = normal_weights(options),
                     .dropout = options.dropout,
                     .norm_eps = options.norm_eps};
  block.attention.projection = normal_weights(options);
  const Settings dropout = {{"dropout", options.attention_dropout}};
  block.attention.mechanism.set_default_length(length).set_known(dropout);
  return blocks_like(block, options.layers, options.attention_blocks, MechanismOptions("softmax", dropout));
}

}  // namespace bochner
