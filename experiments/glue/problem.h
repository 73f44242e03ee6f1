// A GLUE task with a pretrained model, as a Problem for the Learner.
#pragma once

#include "experiments/glue/config.h"
#include "experiments/learners/adaptation/fitting.h"
#include "experiments/learners/feeds.h"
#include "layers/models/bert.h"

namespace bochner::glue {

/// Batches of encoded texts, padded to the longest in the batch: `ids` and `types` (n, length), `mask` (n, length),
/// true at real tokens, and `labels` (n) or, for regression, `values` (n). Without `inputs`, only these last.
class TextFeed final : public LoaderFeed {
 public:
  TextFeed(const std::shared_ptr<const Encoded>& texts, const LoaderOptions& options, bool inputs = true)
      : LoaderFeed(texts->tokens, options), texts_(texts), inputs_(inputs) {}

 private:
  Examples examples_of(Batch batch) override;

  std::shared_ptr<const Encoded> texts_;
  bool inputs_;
};

/// The model that config.json in --pretrained describes, with a classifier of this many outputs and with the attention
/// and the dropout of the options. An Error names what does not fit.
BertOptions bert_options(const Config& config, int64_t outputs);
/// That model with its pretrained weights, changed as the method says. `say` is told which weights were read, and
/// `adapted` receives the result.
std::shared_ptr<Bert> make_bert(const Config& config, int64_t outputs, const Say& say, Adapted& adapted);

/// The states of all tokens of `ids`, with `mask` and `types` if the batch has them.
Variable states_of(PretrainedModel& bert, const Examples& batch, Context& context);

/// 8 texts of --max-length random tokens, as examples without labels.
Examples random_texts(const Config& config, int64_t vocabulary);

/// GLUE's test labels are not public: validation and test both use the development set, as in the papers. For MNLI that
/// is the set of the same genres; the test also gives the metrics on the other genres, such as accuracy-mismatched.
/// `memory` keeps a frozen trunk's states of the training and the development set.
Fitted problem_of(const Config& config, const GlueTask& task, const std::shared_ptr<const Texts>& texts,
                  const std::shared_ptr<TrunkStates>& memory, const Say& say);

}  // namespace bochner::glue
