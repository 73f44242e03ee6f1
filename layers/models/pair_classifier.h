// The dual encoder: two sequences through one trunk, and a head on both vectors. The model of LRA, KL and SKY for
// pairs, such as two documents of which one may cite the other.
#pragma once

#include <memory>

#include "layers/models/encoder.h"

namespace bochner {

/// A head on the vectors u, v of two sequences. `hidden` is EncoderOptions::classifier.
///
///   arena:      W3 relu(W2 relu(W1 [u, v] + b1) + b2) + b3, the second layer with hidden / 2 units
///   skyformer:  W2 relu(W1 [u, v, u v, u - v] + b1) + b2
///
/// The first is that of the code of LRA and KL, the second that of the code of SKY and Nystromformer. If `hidden` is
/// 0, only the last product remains.
class PairHead : public Module {
 public:
  PairHead(Slot slot, const EncoderOptions& options, Generator& init);
  /// u, v (batch, dim) -> (batch, classes)
  Variable forward(const Variable& u, const Variable& v) const;

 private:
  EncoderOptions::Pair pair_;
  std::unique_ptr<Linear> hidden_;
  std::unique_ptr<Linear> narrow_;
  std::unique_ptr<Linear> classes_;
};

/// From pairs of token ids to class scores. In checkpoints, the trunk's names have no prefix, and the head's begin with
/// `classifier`, as in SequenceClassifier.
class PairClassifier : public Module {
 public:
  PairClassifier(const EncoderOptions& options, Generator& init);
  /// ids i64 (batch, 2, length); mask bool (batch, 2, length), true at real tokens, undefined: all. -> (batch, classes)
  Variable forward(const Tensor& ids, const Tensor& mask, Context& context) const;
  const EncoderOptions& options() const { return trunk_.options(); }
  /// The trunk's output for both sequences of all pairs, (2 batch, places, dim): those of pair i are 2 i and 2 i + 1.
  Encoder::States states(const Tensor& ids, const Tensor& mask, Context& context) const;

 private:
  Encoder trunk_;
  PairHead head_;
};

}  // namespace bochner
