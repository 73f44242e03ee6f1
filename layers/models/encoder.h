// The Transformer encoder, and on top of it the classifier of sequences: the model of LRA, KL and SKY.
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
    rotary,    ///< nothing is added to tokens; queries and keys are turned (layers/rotary.h)
    rotary_2d  ///< turned by their rows and columns in an image of `width` columns
  };
  enum class Pooling : unsigned char {
    cls,          ///< a learned vector in front of the sequence (zeros at first), read at the end
    first,        ///< the first token (KL Appendix E)
    mean,         ///< over real tokens
    mean_padded,  ///< over the padded length, padding as zeros (SKY as released)
    max           ///< the largest of real tokens, number by number
  };
  enum class Pair : unsigned char { arena, skyformer };  ///< heads on two sequences (pair_classifier.h)

  int64_t vocabulary = 0;
  Tensor codes = {};   ///< (vocabulary, C): token i is codes[i] W rather than a row of its own; undefined: a row
  int64_t length = 0;  ///< longest sequence, without CLS
  int64_t width = 0;   ///< of the images whose pixels the tokens are, row by row; 0: they are none
  int64_t classes = 0;
  int64_t layers = 2;
  int64_t dim = 64;
  int64_t hidden = 128;    ///< of the feed-forward blocks
  int64_t classifier = 0;  ///< hidden units of the head; 0: none
  Pair pair = Pair::arena;
  MultiHeadOptions attention = {};  ///< `columns` and what turns are the encoder's to say
  Block block = Block::pre_norm;
  Positions positions = Positions::learned;
  Pooling pooling = Pooling::mean;
  bool pooled_batch_norm = false;  ///< BatchNorm, without scale and shift, of the vectors of sequences
  Activation activation = Activation::gelu;
  LinearOptions linear = {};  ///< initial values of the feed-forward blocks and the head
  double embedding_deviation = 0.02;
  double dropout = 0.1;
  double norm_eps = 1e-5;
  bool causal = false;     ///< no token sees later ones
  bool recompute = false;  ///< run each block again in backward instead of keeping its activations
};

/// The trunk: token ids to a vector for each token, and these to one for each sequence. It reads all options but those
/// of the head: `classes`, `classifier` and `pair`. Under Precision::bf16 tokens are in bf16 throughout
/// (layers/mixed_precision.h).
class Encoder : public Module {
 public:
  Encoder(Slot slot, const EncoderOptions& options, Generator& init);

  /// A vector for each place, the CLS vector's first where there is one.
  struct States {
    Variable x;   ///< (batch, places, dim), behind the last norm
    Tensor mask;  ///< bool (batch, places), true at real tokens; undefined: all
  };
  /// ids i64 (batch, length); mask bool (batch, length), true at real tokens, undefined: all. Of slices of sequences
  /// (Context::slice) both are those of the slice; the CLS vector belongs to the first one.
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
  Variable sinusoids_beside(const Variable& x) const;
  Variable over_slices(const Variable& x, Context& context) const;
  Variable pool_states(const States& states, Context& context) const;

  EncoderOptions options_;
  Embedding tokens_;
  Parameter* cls_;
  Parameter* learned_positions_;
  Tensor sinusoids_;
  mutable Tensor placed_sinusoids_;  ///< the same, in the type and on the device of the latest input
  std::unique_ptr<TransformerBlocks> blocks_;
  LayerNorm norm_;
  std::unique_ptr<BatchNorm1d> pooled_norm_;  ///< null: none
};

/// An Error where a head would have no class. Gives their number.
int64_t require_classes(int64_t classes);

/// A head: from one vector a sequence to scores of classes, W relu(V x + a) + b, or W x + b where there are no hidden
/// units.
class ClassifierHead : public Module {
 public:
  ClassifierHead(Slot slot, int64_t inputs, int64_t hidden, int64_t classes, const LinearOptions& linear,
                 Generator& init);
  /// What the last layer sees: (batch, inputs) -> (batch, hidden or inputs)
  Variable units(const Variable& x) const;
  /// (batch, hidden or inputs) -> (batch, classes)
  Variable scores(const Variable& units) const;

 private:
  std::unique_ptr<Linear> hidden_;
  Linear classes_;
};

/// Token ids to class scores: trunk, pooling and head. In checkpoints the trunk's names stand alone, the head's begin
/// with `classifier`.
class SequenceClassifier : public Module {
 public:
  SequenceClassifier(const EncoderOptions& options, Generator& init);
  /// ids i64 (batch, length); mask bool (batch, length), true at real tokens, undefined: all. -> (batch, classes)
  Variable forward(const Tensor& ids, const Tensor& mask, Context& context) const;
  /// forward in two halves: what the last layer sees (batch, classifier or dim), ...
  Variable units(const Tensor& ids, const Tensor& mask, Context& context) const;
  /// ... and the scores of that.  (batch, classes)
  Variable scores(const Variable& units) const { return head_.scores(units); }
  const EncoderOptions& options() const { return trunk_.options(); }
  const Encoder& trunk() const { return trunk_; }

 private:
  Encoder trunk_;
  ClassifierHead head_;
};

}  // namespace bochner
