// The Transformer encoder and, on top of it, the sequence classifier: the model of LRA, KL and SKY.
#pragma once

#include "layers/batch_norm.h"
#include "layers/embedding.h"
#include "layers/models/block.h"

namespace bochner {

struct EncoderOptions {
  using Block = BlockOptions::Order;
  enum class Positions : unsigned char {
    sinusoidal,
    learned,
    rotary,    ///< nothing is added to tokens; queries and keys are rotated (layers/rotary.h)
    rotary_2d  ///< rotated by their rows and columns in an image of `width` columns
  };
  enum class Pooling : unsigned char {
    cls,          ///< a learned vector in front of the sequence (zeros at first), read at the end
    first,        ///< the first token (KL Appendix E)
    mean,         ///< over real tokens
    mean_padded,  ///< over the padded length, padding as zeros (SKY as released)
    max           ///< elementwise maximum over real tokens
  };
  enum class Pair : unsigned char { arena, skyformer };  ///< heads on two sequences (pair_classifier.h)

  int64_t vocabulary = 0;
  Tensor codes = {};   ///< (vocabulary, C): token i is codes[i] W rather than a row of its own; undefined: a row
  int64_t length = 0;  ///< longest sequence, without CLS
  int64_t width = 0;   ///< of the images, if tokens are their pixels row by row; 0: they are not
  int64_t classes = 0;
  int64_t layers = 2;
  int64_t dim = 64;
  int64_t hidden = 128;    ///< of the feed-forward blocks
  int64_t classifier = 0;  ///< hidden units of the head; 0: none
  Pair pair = Pair::arena;
  MultiHeadOptions attention = {};  ///< the encoder sets `columns` and the rotary options
  Block block = Block::pre_norm;
  Positions positions = Positions::learned;
  Pooling pooling = Pooling::mean;
  bool pooled_batch_norm = false;  ///< BatchNorm, without scale and shift, of the pooled vectors
  Activation activation = Activation::gelu;
  LinearOptions linear = {};  ///< initial values of the feed-forward blocks and the head
  double embedding_deviation = 0.02;
  double dropout = 0.1;
  double norm_eps = 1e-5;
  bool causal = false;     ///< no token sees later ones
  bool recompute = false;  ///< run each block again in backward instead of keeping its activations
};

/// The trunk: from token ids to a vector for each token, and from these to one for each sequence. It uses all options
/// except those of the head: `classes`, `classifier` and `pair`. Under Precision::bf16 tokens are in bf16 throughout
/// (layers/mixed_precision.h).
class Encoder : public Module {
 public:
  Encoder(Slot slot, const EncoderOptions& options, Generator& init);

  /// A vector for each place; that of CLS comes first if there is one.
  struct States {
    Variable x;   ///< (batch, places, dim), after the last norm
    Tensor mask;  ///< bool (batch, places), true at real tokens; undefined: all
  };
  /// ids i64 (batch, length); mask bool (batch, length), true at real tokens, undefined: all. For slices of sequences
  /// (Context::slice), both are those of the slice; the CLS vector belongs to the first slice.
  States forward(const Tensor& ids, const Tensor& mask, Context& context) const;
  /// One vector for each sequence, as options().pooling and pooled_batch_norm say, in f32.  (batch, dim)
  Variable pool(const States& states, Context& context) const;
  const EncoderOptions& options() const { return options_; }

 private:
  friend class SequenceClassifier;
  struct TokensAlone {};
  /// In two steps, so that a whole model can draw initial values in the order in which its published runs drew them:
  /// tokens, head, positions, blocks.
  Encoder(Slot slot, const EncoderOptions& options, Generator& init, TokensAlone);
  void add_the_rest(Generator& init);
  Variable positions(int64_t first, int64_t count) const;
  Variable over_slices(const Variable& x, Context& context) const;
  Variable pool_states(const States& states, Context& context) const;

  EncoderOptions options_;
  Embedding tokens_;
  Parameter* cls_;
  Parameter* learned_positions_;
  Tensor sinusoids_;
  mutable Tensor placed_sinusoids_;  ///< the same, in the type and on the device of the tokens' table
  std::unique_ptr<TransformerBlocks> blocks_;
  LayerNorm norm_;
  std::unique_ptr<BatchNorm1d> pooled_norm_;  ///< null: none
};

/// Returns `classes`; an Error if a head would have no class.
int64_t require_classes(int64_t classes);

/// A head: from one vector per sequence to class scores, W relu(V x + a) + b, or W x + b without hidden units.
class ClassifierHead : public Module {
 public:
  ClassifierHead(Slot slot, int64_t inputs, int64_t hidden, int64_t classes, const LinearOptions& linear,
                 Generator& init);
  /// The input of the last layer: (batch, inputs) -> (batch, hidden or inputs)
  Variable units(const Variable& x) const;
  /// (batch, hidden or inputs) -> (batch, classes)
  Variable scores(const Variable& units) const;

 private:
  std::unique_ptr<Linear> hidden_;
  Linear classes_;
};

/// From token ids to class scores: trunk, pooling and head. In checkpoints, the trunk's names have no prefix, and the
/// head's begin with `classifier`.
class SequenceClassifier : public Module {
 public:
  SequenceClassifier(const EncoderOptions& options, Generator& init);
  /// ids i64 (batch, length); mask bool (batch, length), true at real tokens, undefined: all. -> (batch, classes)
  Variable forward(const Tensor& ids, const Tensor& mask, Context& context) const;
  /// The first half of forward: the input of the last layer, (batch, classifier or dim).
  Variable units(const Tensor& ids, const Tensor& mask, Context& context) const;
  /// The second half: the scores from that input.  (batch, classes)
  Variable scores(const Variable& units) const { return head_.scores(units); }
  const EncoderOptions& options() const { return trunk_.options(); }
  const Encoder& trunk() const { return trunk_; }

 private:
  Encoder trunk_;
  ClassifierHead head_;
};

}  // namespace bochner
