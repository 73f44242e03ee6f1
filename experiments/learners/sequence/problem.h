// Classification of sequences of tokens, or of pairs of sequences, as a Problem for the Learner.
#pragma once

#include <functional>
#include <memory>

#include "datasets/task.h"
#include "experiments/learners/feeds.h"
#include "experiments/learners/learner.h"
#include "experiments/learners/task.h"
#include "layers/models/encoder.h"

namespace bochner::sequence {

/// Batches of a Loader: `ids` and `mask` (n, length), or (n, 2, length) for pairs, and `labels` (n).
class TokenFeed final : public LoaderFeed {
  using LoaderFeed::LoaderFeed;
  Examples examples_of(Batch batch) override;
};

/// The model of a task, and how it is called: a SequenceClassifier, or a PairClassifier for pairs.
struct Classifier {
  std::shared_ptr<Module> module;
  std::function<Variable(const Tensor& ids, const Tensor& mask, Context& context)> forward;
};
Classifier classifier(const EncoderOptions& options, const Task& task, Generator& init);

/// The parts of a Problem on a task's data that do not depend on the model: the feeds, with training examples in random
/// order and the others in their own, and the remarks.
Problem without_model(const RunOptions& run, const EncoderOptions& options, const TaskData& data);

/// An Error if vectors are standardised over batches that are grouped by length or divided, since evaluations use the
/// statistics of all lengths.
void require_batch_norm_of_batches(const RunOptions& run, const EncoderOptions& options);

/// An encoder with these options on the data of a task, with the task's metrics. The baselines are the majority class
/// and those of the task.
Problem classification(const RunOptions& run, const EncoderOptions& options, const TaskData& data,
                       const TaskEntry<TaskData>& task);

}  // namespace bochner::sequence
