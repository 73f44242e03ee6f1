// Self-pretraining (Amos, Berant, Gupta, "Never Train from Scratch", ICLR 2024): before it learns a task, the trunk of
// its model learns to name hidden tokens of the task's own training set.
#pragma once

#include "experiments/learners/masked/masked_tokens.h"
#include "experiments/learners/sequence/problem.h"

namespace bochner::sequence {

/// The two texts of pairs as examples of their own, so that a batch of n pairs becomes one of 2 n texts: `ids` and
/// `mask` (2 n, length), without labels. Example 2 i + s is text s of pair i.
class TextsOfPairs final : public FeedOver {
 public:
  using FeedOver::FeedOver;
  int64_t examples() const override { return 2 * FeedOver::examples(); }

 private:
  Examples examples_of(Examples pairs) override;
};

/// The trunk with scores of tokens on it, trained on the texts of a task, whose labels it does not see. In checkpoints
/// the trunk's names are those of the task's classifier, which --init takes; the scores' begin with `masked`. `share`
/// of the tokens is hidden. An Error if the options have no token beside the task's vocabulary that could hide them.
Problem masked_tokens(const RunOptions& run, const EncoderOptions& options, const TaskData& data, double share);

}  // namespace bochner::sequence
