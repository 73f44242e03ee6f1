// Self-pretraining (Amos, Berant, Gupta, "Never Train from Scratch", ICLR 2024): before the model learns a task, its
// trunk learns to predict hidden tokens of the task's own training set.
#pragma once

#include "experiments/learners/masked/masked_tokens.h"
#include "experiments/learners/sequence/problem.h"

namespace bochner::sequence {

/// The two texts of each pair as separate examples, so a batch of n pairs becomes one of 2 n texts: `ids` and `mask` (2
/// n, length), without labels. Example 2 i + s is text s of pair i.
class TextsOfPairs final : public FeedOver {
 public:
  using FeedOver::FeedOver;
  int64_t examples() const override { return 2 * FeedOver::examples(); }

 private:
  Examples examples_of(Examples pairs) override;
};

/// The trunk with a head that scores tokens, trained on the texts of a task without their labels. In checkpoints the
/// trunk has the same names as in the task's classifier, so --init takes it; the names of the head begin with `masked`.
/// `share` of the tokens is hidden. An Error if the options have no token outside the task's vocabulary to hide them
/// with.
Problem masked_tokens(const RunOptions& run, const EncoderOptions& options, const TaskData& data, double share);

}  // namespace bochner::sequence
