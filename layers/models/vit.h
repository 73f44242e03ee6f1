// The Vision Transformer (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021): an image is cut into patches,
// each of which is a token, and a learned vector in front of them is read at the end.
//
//   Vit vit({}, {.classes = 10}, init);                                 // ViT-B/16 with a classifier
//   const Variable logits = vit.class_scores(vit.pool(vit.forward(pixels, context)), context);
//
// layers/models/hugging_face.h reads and writes weights.
#pragma once

#include "layers/models/pretrained.h"

namespace bochner {

/// The defaults are those of ViT-B/16.
struct VitOptions {
  int64_t image = 224;  ///< height and width, in pixels
  int64_t patch = 16;   ///< the same for a patch; must divide `image`
  int64_t channels = 3;
  int64_t layers = 12;
  int64_t dim = 768;
  int64_t hidden = 3072;                       ///< of the feed-forward networks
  MultiHeadOptions attention = {.heads = 12};  ///< its options for initial values are ignored
  std::vector<int64_t> attention_blocks = {};  ///< blocks with that attention, the others have softmax; empty: all
  Activation activation = Activation::gelu;
  double dropout = 0;            ///< of embeddings, and after each half of a block
  double attention_dropout = 0;  ///< of the attention weights, if the mechanism has them
  double norm_eps = 1e-12;
  double deviation = 0.02;  ///< of all initial weights; biases are 0
  bool recompute = false;   ///< run each block again in backward instead of keeping its activations

  // Heads.
  bool pooler = false;                   ///< a classifier then reads its output, as in pretraining (section 3.1)
  int64_t classes = 0;                   ///< 0: no classifier
  std::vector<std::string> labels = {};  ///< the names of the classes, for config.json; empty: LABEL_0, LABEL_1, ...
  std::string problem_type = {};  ///< what its scores mean, for config.json, as transformers names it; empty: left out
};

class Vit : public PretrainedModel {
 public:
  Vit(Slot slot, const VitOptions& options, Generator& init);

  /// The hidden states of the vector in front and of each patch, row by row of the image, after the last norm.
  /// pixels (batch, channels, image, image) -> (batch, 1 + patches, dim)
  /// `states`, if given, receives the embeddings and then the output of each block, without that norm.
  Variable forward(const Variable& pixels, Context& context, std::vector<Variable>* states = nullptr) const;

  std::string_view type() const override { return "vit"; }
  int64_t dim() const override { return options_.dim; }
  bool has_heads() const override { return options_.classes > 0; }
  int64_t classes() const override { return options_.classes; }
  const std::vector<std::string>& labels() const override { return options_.labels; }
  std::deque<TransformerBlock>& blocks() override { return blocks_.all(); }

  const VitOptions& options() const { return options_; }

 private:
  bool needs_pooler() const override { return false; }

  VitOptions options_;
  Parameter& cls_;        ///< (1, 1, dim)
  Linear patches_;        ///< inputs: channel by channel, row by row of a patch
  Parameter& positions_;  ///< (1 + patches, dim)
  DropoutLayer dropout_;
  TransformerBlocks blocks_;
  LayerNorm norm_;
};

}  // namespace bochner
