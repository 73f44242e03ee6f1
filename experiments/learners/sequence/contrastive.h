// Contrastive learning of pairs: for each first text of a batch, the model must find its second text among all second
// texts of the batch (InfoNCE: van den Oord, Li, Vinyals, 2018; other pairs as negatives: Henderson et al., 2017,
// section 4.4).
//
//   s_ij = cos(u_i, v_j) / T        u_i, v_j: the trunk's vectors of first text i and second text j, n pairs in a batch
//   L = -1/n sum_i log(exp(s_ii) / sum_j exp(s_ij))
//
// So a batch of n pairs makes n^2 comparisons, where classification makes n.
#pragma once

#include "experiments/learners/sequence/problem.h"

namespace bochner::sequence {

/// Batches of pairs whose `labels` are the places of the pairs in the batch, 0 ... n - 1.
class PlacesInBatch final : public FeedOver {
  using FeedOver::FeedOver;
  Examples examples_of(Examples pairs) override;
};

/// L of the scores s (n, n): the class of a first text is the place of its second text. L is not a mean over examples,
/// since a part of a batch has fewer negatives.
class InBatchContrast final : public Classification {
 public:
  Tensor terms(const Examples&) const override { return {}; }
};

/// The trunk, trained on the pairs of class 1, the class of texts that belong together. In checkpoints it has the same
/// names as in the task's classifier, so --init takes it. `temperature` is T. Metrics are the loss and the share of
/// first texts that find their second text, both in batches of --batch pairs, the last of which may be smaller. If
/// texts of two pairs in a batch belong together as well, each still counts as wrong for the other. An Error if the
/// task has no pairs, or none of that class, or if a batch has one pair.
Problem contrastive(const RunOptions& run, const EncoderOptions& options, const TaskData& data, double temperature);

}  // namespace bochner::sequence
