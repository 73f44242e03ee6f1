// BERT (Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", 2019): from
// token ids to a hidden state for each token and one for the whole text, and the heads that read these. Any attention
// of the registry may replace softmax, in all blocks or in some.
//
//   BertOptions options = {.classes = 2};                      // BERT-base with a classifier
//   Bert bert({}, options, init);
//   const Variable x = bert.forward({ids, mask, types}, context);
//   const Variable logits = bert.class_scores(bert.pool(x), context);
//
// layers/models/hugging_face.h reads and writes weights.
#pragma once

#include <memory>

#include "layers/embedding.h"
#include "layers/models/pretrained.h"

namespace bochner {

/// The defaults are those of BERT-base, uncased.
struct BertOptions {
  enum class Positions : unsigned char {
    learned,
    /// Of Vaswani et al. (layers/embedding.h), never trained, and as large beside the tokens' embeddings as there,
    /// where these have deviation 1: times `deviation`, as the norm behind takes out what is common. Files hold them
    /// like learned ones.
    sinusoidal
  };

  int64_t vocabulary = 30522;
  int64_t padding = 0;   ///< the token whose embedding is never trained as an input; -1: none
  int64_t length = 512;  ///< longest sequence
  Positions positions = Positions::learned;
  int64_t types = 2;  ///< of segments: 0 for the first text of a pair, 1 for the second
  int64_t layers = 12;
  int64_t dim = 768;
  int64_t hidden = 3072;                       ///< of the feed-forward networks
  MultiHeadOptions attention = {.heads = 12};  ///< its options for initial values are ignored
  std::vector<int64_t> attention_blocks = {};  ///< blocks with that attention, the others have softmax; empty: all
  Activation activation = Activation::gelu;
  double dropout = 0.1;            ///< of embeddings, and after each half of a block
  double attention_dropout = 0.1;  ///< of the attention weights, if the mechanism has them
  double norm_eps = 1e-12;
  double deviation = 0.02;  ///< of all initial weights; biases are 0
  bool recompute = false;   ///< run each block again in backward instead of keeping its activations

  // Heads.
  bool pooler = true;
  bool masked_tokens = false;
  bool next_sentence = false;            ///< needs the pooler
  int64_t classes = 0;                   ///< 0: no classifier. Needs the pooler
  std::vector<std::string> labels = {};  ///< the names of the classes, for config.json; empty: LABEL_0, LABEL_1, ...
  std::string problem_type = {};  ///< what its scores mean, for config.json, as transformers names it; empty: left out
  double classifier_dropout = 0.1;  ///< of the classifier's input
};

/// The scores of all tokens at a position: LayerNorm(act(W x + a)) E^T + b, where E is the table of token embeddings.
class MaskedTokenHead : public Module {
 public:
  MaskedTokenHead(Slot slot, const BertOptions& options, Generator& init);
  /// x (..., dim), E (vocabulary, dim) -> (..., vocabulary)
  Variable forward(const Variable& x, const Variable& embeddings) const;

 private:
  Activation activation_;
  Linear dense_;
  LayerNorm norm_;
  Parameter& bias_;
};

class Bert : public PretrainedModel {
 public:
  Bert(Slot slot, const BertOptions& options, Generator& init);

  struct Input {
    Tensor ids;         ///< i64 (batch, length)
    Tensor mask = {};   ///< bool (batch, length), true at real tokens; undefined: all are
    Tensor types = {};  ///< i64 (batch, length); undefined: all 0
  };
  /// The hidden state of each token.  (batch, length, dim)
  /// `states`, if given, receives the embeddings and then the output of each block.
  Variable forward(const Input& input, Context& context, std::vector<Variable>* states = nullptr) const;

  // Each of these is an Error if the model has no such head.

  /// (..., dim) -> (..., vocabulary), in f32. To save time and memory, pass only the states of the masked tokens.
  Variable token_scores(const Variable& x) const;
  /// Does the second text follow the first? Score 0: yes, 1: no.  (batch, dim) -> (batch, 2)
  Variable next_sentence_scores(const Variable& pooled) const;

  std::string_view type() const override { return "bert"; }
  int64_t dim() const override { return options_.dim; }
  bool has_heads() const override { return options_.masked_tokens || options_.next_sentence || options_.classes > 0; }
  int64_t classes() const override { return options_.classes; }
  const std::vector<std::string>& labels() const override { return options_.labels; }
  std::deque<TransformerBlock>& blocks() override { return blocks_.all(); }

  const BertOptions& options() const { return options_; }

 private:
  bool needs_pooler() const override { return true; }

  BertOptions options_;
  Embedding tokens_;
  Embedding positions_;
  Embedding types_;
  LayerNorm norm_;
  DropoutLayer dropout_;
  TransformerBlocks blocks_;
  std::unique_ptr<MaskedTokenHead> masked_tokens_;
  std::unique_ptr<Linear> next_sentence_;
};

}  // namespace bochner
